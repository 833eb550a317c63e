"""Source code: symbols, imports and passages by tree-sitter."""
