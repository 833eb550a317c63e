"""Named moments between two steps of writing, at each of which a process may die without loss.

Nothing happens there. The crash harness (`benchmarks/crash.py`) arms them in a child process of
its own, to have it killed at one of them. No setting and no variable does that.
"""

from collections.abc import Callable

# Each with what has just happened. A test holds that each is in the source and is reached.
POINTS = (
    "lock.held",  # the lock is ours, and nobody's name is in it yet
    "arrays.begun",  # a file is open, and its header written
    "arrays.written",  # all of it is written, nothing synced
    "segment.file",  # one file of a segment is whole, the next not begun
    "segment.synced",  # whole and synced, under a name that says that it is not
    "segment.named",  # it has its name; the folder above is not synced
    "put.written",  # a new segment that no commit knows of
    "put.document",  # within the transaction: some documents are in, some are not
    "embed.written",  # a segment with the vectors of documents that were without
    "merge.written",  # segments as one, and none of them is gone
    "merge.committed",  # the old ones are out of index.db, their folders still there
    "obsolete.removed",  # one folder less
    "commit.before",  # a whole transaction, not committed
    "commit.after",  # committed, and nobody told
    "database.made",  # a new index.db under another name
    "database.named",  # it has its name; the folder is not synced
    "discard.file",  # of a damaged index, index.db or its log is gone
    "sweep.removed",  # one leftover less
    "embed.portion",  # vectors were made that no commit has
    "cache.made",  # a vector that is kept nowhere
    "cache.kept",  # the cache has it
    "mend.committed",  # what was damaged is out, what it has left on disk is not
    "aside.made",  # an index that is to take the place of a damaged one is whole
    "aside.moved",  # one of its segments is where it belongs
    "aside.unlogged",  # the damaged index.db has no log any more
    "aside.replaced",  # the new index.db is in its place
    "aside.swept",  # the segments of the old one are gone
    "concepts.written",  # a file of the vocabulary is whole, under a name that says that it is not
    "concepts.named",  # it has its name
    "concepts.published",  # index.db names the new vocabulary; the old one is still there
)

_armed: Callable[[str], None] | None = None


def arm(act: Callable[[str], None] | None) -> None:
    """Call `act` with the name of every point that this process reaches; None disarms."""
    global _armed
    _armed = act


def reached(point: str) -> None:
    """Note that a point is reached."""
    if _armed is not None:
        _armed(point)
