"""An oracle for lists of ignore patterns: each pattern is tried by itself."""

import os

from tamis.gitignore.patterns import Pattern, regex_of


def matches(pattern: Pattern, path: str, is_dir: bool) -> bool:
    """Return True if the pattern matches a path, relative to the pattern's own folder."""
    if pattern.directory_only and not is_dir:
        return False
    subject = os.fsencode(path).decode("latin-1")
    if not pattern.anchored:
        subject = subject.rpartition("/")[2]
    regex = regex_of(pattern.glob)
    return regex is not None and regex.fullmatch(subject) is not None
