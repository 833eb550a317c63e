"""Make a document of a file's text: title, front matter, passages and links."""

from dataclasses import replace

from tamis.ingest.code.chunks import code_parts
from tamis.ingest.code.data import data_parts
from tamis.ingest.documents.frontmatter import front_matter
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
from tamis.text.linking import front_links
from tamis.text.words import tag_name


def parse(source: Source, sizes: ChunkingSettings) -> tuple[Document, str]:
    """Return the document and a warning, which is mostly empty."""
    path = source.path
    text = source.text
    kind = extension(path)
    front = FrontMatter(title=file_name(path))
    outline = Outline()
    warning = ""
    found: Passages | None = None
    if kind in MARKDOWN:
        front, start, warning = front_matter(text)
        outline = markdown_outline(text, start, sizes.smallest)
        found = passages(text, outline, sizes, start=start)
    elif kind == ".rst":
        front = FrontMatter()
        outline = rst_outline(text)
        found = passages(text, outline, sizes)
    elif kind == ".ipynb":
        try:
            book = read_notebook(text)
        except ValueError as error:
            warning = f"no notebook, read as text: {error}"
        else:
            front = FrontMatter(title=book.title)
            found, outline = notebook_passages(book, sizes)
    elif kind in DATA_LANGUAGE:
        found = data_parts(path, text, sizes)
    elif kind in CODE_LANGUAGE:
        found, warning = code_parts(path, text, sizes)
    if found is None:
        found = window_passages(path, text, sizes)
    document = _document(source, outline, found, front)
    return document, source.warning or warning


def window_passages(path: str, text: str, sizes: ChunkingSettings) -> Passages:
    """Cut text into windows of whole lines; a line that is too long is cut."""
    kind = chunk_type_of(path)
    return passages(text, Outline(), sizes, kind=kind, language=language_of(path))


def _document(
    source: Source, outline: Outline, found: Passages, front: FrontMatter
) -> Document:
    title = front.title or outline.title
    if not title:
        title = file_name(source.path).rsplit(".", 1)[0]
    modified = front.modified
    if modified is None:
        modified = source.mtime_ns / 1e9
    if outline.tags:  # tags in the text count like those in the front matter
        names = dict.fromkeys((*front.tags, *map(tag_name, outline.tags)))
        front = replace(front, tags=tuple(filter(None, names)))
    return Document(
        path=source.path,
        title=title,
        front=front,
        modified=modified,
        chunks=tuple(found.chunks),
        links=(*front_links(front), *found.links),
        parents=tuple(found.parents),
    )
