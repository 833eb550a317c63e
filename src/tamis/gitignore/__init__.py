"""Ignore rules as git reads them."""
