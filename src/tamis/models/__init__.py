"""Models: text to numbers, each behind two methods, loaded from packages and never from a network."""
