"""Make a document of a file's text: title, front matter, passages and links.

Every format has a parser of one signature: path, text and sizes give a `Parsed`.
"""

from collections.abc import Callable
from dataclasses import replace

from tamis.ingest.code.chunks import parse_code
from tamis.ingest.code.data import parse_data
from tamis.ingest.documents.markdown import parse_markdown
from tamis.ingest.documents.notebook import parse_notebook
from tamis.ingest.documents.rst import parse_rst
from tamis.ingest.documents.sections import Parsed, parse_plain
from tamis.ingest.read import Source
from tamis.model import Document, FrontMatter
from tamis.settings import ChunkingSettings
from tamis.text.languages import (
    CODE_LANGUAGE,
    DATA_LANGUAGE,
    MARKDOWN,
    extension,
    file_name,
)
from tamis.text.linking import front_links
from tamis.text.words import tag_name

Parser = Callable[[str, str, ChunkingSettings], Parsed]

# By extension; a file with another one is plain text.
PARSERS: dict[str, Parser] = {
    **dict.fromkeys(CODE_LANGUAGE, parse_code),
    **dict.fromkeys(DATA_LANGUAGE, parse_data),
    **dict.fromkeys(MARKDOWN, parse_markdown),
    ".ipynb": parse_notebook,
    ".rst": parse_rst,
}


def parse(source: Source, sizes: ChunkingSettings) -> tuple[Document, str]:
    """Return the document and a warning, which is mostly empty."""
    path = source.path
    name = file_name(path)
    parser = PARSERS.get(extension(path), parse_plain)
    found = parser(path, source.text, sizes)
    front = found.front or FrontMatter(title=name)
    if found.tags:  # tags in the text count like those in the front matter
        tags = dict.fromkeys((*front.tags, *map(tag_name, found.tags)))
        front = replace(front, tags=tuple(filter(None, tags)))
    modified = front.modified
    if modified is None:
        modified = source.mtime_ns / 1e9
    document = Document(
        path=path,
        title=front.title or found.title or name.rsplit(".", 1)[0],
        front=front,
        modified=modified,
        chunks=tuple(found.chunks),
        links=(*front_links(front), *found.links),
        parents=tuple(found.parents),
    )
    return document, source.warning or found.warning
