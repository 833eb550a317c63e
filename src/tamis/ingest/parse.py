"""From a file's text to a document: its title, what it says about itself, and its chunks."""

from tamis.ingest.frontmatter import front_matter
from tamis.ingest.markdown import markdown_chunks
from tamis.ingest.read import Source
from tamis.ingest.split import Lines, pieces
from tamis.languages import MARKDOWN, chunk_type_of, extension, language_of
from tamis.model import Chunk, Document, FrontMatter
from tamis.settings import ChunkingSettings

# Raise whenever the same file would give other chunks: an index made before is then out of date.
PARSER_VERSION = 2


def parse(source: Source, sizes: ChunkingSettings) -> tuple[Document, str]:
    """The document, and a warning (mostly empty)."""
    name = source.path.rsplit("/", 1)[-1]
    modified = source.mtime_ns / 1e9
    if extension(source.path) not in MARKDOWN:
        chunks = window_chunks(source.path, source.text, sizes)
        return Document(source.path, name, FrontMatter(), modified, tuple(chunks)), source.warning
    front, start, warning = front_matter(source.text)
    chunks, heading = markdown_chunks(source.text, start, sizes)
    title = front.title or heading or name.rsplit(".", 1)[0]
    own_date = front.modified if front.modified is not None else modified
    return Document(source.path, title, front, own_date, tuple(chunks)), source.warning or warning


def window_chunks(path: str, text: str, sizes: ChunkingSettings) -> list[Chunk]:
    """Text and code in windows of whole lines; a line that is too long is cut."""
    lines = Lines(text)
    kind, language = chunk_type_of(path), language_of(path)
    return [
        Chunk(ordinal, text[start:end], "", lines.at(start), lines.at(end - 1), kind, language)
        for ordinal, (start, end) in enumerate(pieces(text, (0, len(text)), sizes))
    ]
