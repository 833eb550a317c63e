"""Agents that start tamis as a server of theirs: where each keeps its configuration, and how to change it."""


class Unparsed(ValueError):
    """A text that is not in its format, or cannot be changed without harm: where, and why."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why
