"""The indexing path and the engines that store what it makes."""
