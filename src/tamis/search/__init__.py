"""The query path: from a request to ranked results."""
