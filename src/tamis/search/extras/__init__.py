"""Optional stages of the query path, off by default, one file each."""
