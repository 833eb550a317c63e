"""From files on disk to chunks."""
