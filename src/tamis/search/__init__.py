"""THE QUERY PATH: lanes, fusion, and a chain of stages."""
