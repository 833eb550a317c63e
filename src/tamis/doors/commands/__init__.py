"""The commands, by subject. What they share: `options`, `opening` a corpus, and `output`."""
