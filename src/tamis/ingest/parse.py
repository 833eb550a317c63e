"""From a file's text to a document: its title, what it says about itself, and its chunks."""

from collections.abc import Iterable
from dataclasses import replace

from tamis.ingest.code.chunks import code_parts
from tamis.ingest.code.data import data_parts
from tamis.ingest.documents.frontmatter import front_matter
from tamis.ingest.documents.links import front_links
from tamis.ingest.documents.markdown import markdown_outline
from tamis.ingest.documents.notebook import notebook_passages, read_notebook
from tamis.ingest.documents.rst import rst_outline
from tamis.ingest.documents.sections import Outline, Passages, passages
from tamis.ingest.read import Source
from tamis.model import Document, FrontMatter
from tamis.settings import ChunkingSettings
from tamis.text.languages import (
    CODE_LANGUAGE,
    DATA_LANGUAGE,
    MARKDOWN,
    chunk_type_of,
    extension,
    file_name,
    language_of,
)
from tamis.text.words import tag_name

# Raise whenever the same file would give other chunks: an index made before is then out of date.
PARSER_VERSION = 5


def parse(source: Source, sizes: ChunkingSettings) -> tuple[Document, str]:
    """The document, and a warning (mostly empty)."""
    kind = extension(source.path)
    if kind in MARKDOWN:
        return _markdown(source, sizes)
    if kind == ".rst":
        return _rst(source, sizes), source.warning
    if kind == ".ipynb":
        return _notebook(source, sizes)
    if kind in CODE_LANGUAGE or kind in DATA_LANGUAGE:
        return _structured(source, sizes)
    return _windows(source, sizes), source.warning


def _structured(source: Source, sizes: ChunkingSettings) -> tuple[Document, str]:
    """Code by its definitions, data by its keys; in windows, where that cannot be."""
    if extension(source.path) in DATA_LANGUAGE:
        found, warning = data_parts(source.path, source.text, sizes), ""
    else:
        read, warning = code_parts(source.path, source.text, sizes)
        found = read or window_passages(source.path, source.text, sizes)
    return _named(source, found), source.warning or warning


def _markdown(source: Source, sizes: ChunkingSettings) -> tuple[Document, str]:
    front, start, warning = front_matter(source.text)
    outline = markdown_outline(source.text, start, sizes.smallest)
    found = passages(source.text, outline, sizes, start=start)
    return _document(source, outline, found, front), source.warning or warning


def _rst(source: Source, sizes: ChunkingSettings) -> Document:
    outline = rst_outline(source.text)
    return _document(
        source, outline, passages(source.text, outline, sizes), FrontMatter()
    )


def _notebook(source: Source, sizes: ChunkingSettings) -> tuple[Document, str]:
    try:
        book = read_notebook(source.text)
    except ValueError as error:
        return _windows(
            source, sizes
        ), source.warning or f"no notebook, read as text: {error}"
    found, outline = notebook_passages(book, sizes)
    return _document(
        source, outline, found, FrontMatter(title=book.title)
    ), source.warning


def _windows(source: Source, sizes: ChunkingSettings) -> Document:
    return _named(source, window_passages(source.path, source.text, sizes))


def _named(source: Source, found: Passages) -> Document:
    """A document whose title is its file's name."""
    return _document(
        source, Outline(), found, FrontMatter(title=file_name(source.path))
    )


def window_passages(path: str, text: str, sizes: ChunkingSettings) -> Passages:
    """Text and code in windows of whole lines; a line that is too long is cut."""
    return passages(
        text, Outline(), sizes, kind=chunk_type_of(path), language=language_of(path)
    )


def _document(
    source: Source, outline: Outline, found: Passages, front: FrontMatter
) -> Document:
    title = front.title or outline.title or file_name(source.path).rsplit(".", 1)[0]
    modified = front.modified if front.modified is not None else source.mtime_ns / 1e9
    links = (*front_links(front), *found.links)
    front = _with_tags(front, outline.tags) if outline.tags else front
    return Document(
        source.path,
        title,
        front,
        modified,
        tuple(found.chunks),
        links,
        tuple(found.parents),
    )


def _with_tags(front: FrontMatter, tags: Iterable[str]) -> FrontMatter:
    """The tags in the text count like those above it."""
    names = dict.fromkeys((*front.tags, *map(tag_name, tags)))
    return replace(front, tags=tuple(name for name in names if name))
