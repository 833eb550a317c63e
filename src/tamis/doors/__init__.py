"""Doors: they translate in and out, and hold no logic."""
