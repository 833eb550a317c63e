"""The law of chunks: nothing lost, nothing invented, nothing too long, every number right."""

from itertools import pairwise

from hypothesis import strategies as st

from tamis.model import Chunk
from tamis.settings import ChunkingSettings

DEFAULT = ChunkingSettings()
SMALL = ChunkingSettings(min_chars=20, max_chars=120, overlap_chars=20)
ALONE = ChunkingSettings(min_chars=0, max_chars=1500, overlap_chars=0)
SIZES = st.sampled_from(
    [DEFAULT, SMALL, ALONE, ChunkingSettings(0, 100, 50), ChunkingSettings(100, 100, 0)]
)


def fence_lines(lines: list[str], chunk: Chunk) -> set[int]:
    """The lines around a block of code: its fences may be in no other chunk."""
    above, below = chunk.start_line - 1, chunk.end_line + 1
    while above > 1 and not lines[above - 1].strip():
        above -= 1
    while below < len(lines) and not lines[below - 1].strip():
        below += 1
    return {above, below}


def check_law(
    text: str, chunks: list[Chunk], sizes: ChunkingSettings, first_line: int = 1
) -> None:
    """Nothing lost, nothing invented, nothing too long, every number right."""
    lines = text.split("\n")
    covered: set[int] = set()
    for ordinal, chunk in enumerate(chunks):
        assert chunk.ordinal == ordinal
        assert 0 < len(chunk.content) <= sizes.max_chars
        assert chunk.content == chunk.content.rstrip()
        assert chunk.content.split("\n")[0].strip()
        own = lines[chunk.start_line - 1 : chunk.end_line]
        inner = chunk.content.split("\n")
        assert len(own) == len(inner)
        assert own[0].endswith(inner[0]) if len(own) > 1 else inner[0] in own[0]
        assert inner[1:-1] == own[1:-1]
        assert own[-1].startswith(inner[-1]) if len(own) > 1 else True
        covered |= set(range(chunk.start_line, chunk.end_line + 1))
        if chunk.chunk_type == "code_block":
            covered |= fence_lines(lines, chunk)
    wanted = {
        number
        for number, line in enumerate(lines, 1)
        if line.strip() and number >= first_line
    }
    assert wanted <= covered
    for one, two in pairwise(chunks):
        assert one.start_line <= two.start_line
    prose = [chunk for chunk in chunks if chunk.chunk_type != "code_block"]
    for one, two in pairwise(prose):
        assert (one.start_line, one.end_line) <= (two.start_line, two.end_line)
