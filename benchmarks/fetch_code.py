"""The corpora of the judged code sets, fetched from the package registries.

    python benchmarks/fetch_code.py [--to DIR] [--sets FOLDER] [--whole] [NAME...]

The sets have questions and judgements alone; the README of each names a repository, a commit and a folder
of it. This fetches a release near that commit with the machine's own pip, npm and apt-get, and lays its
files out as the repository has them, so that the judged paths are there:

    python benchmarks/fetch_code.py --to ~/corpora
    tamis eval ../shared/data/code/semble/requests=~/corpora/requests

Only the judged folder is kept, so that figures can be held against those that others published; `--whole`
keeps tests, documentation and whatever else the release has (give it a DIR of its own). What is there from
before is kept: delete DIR/NAME and DIR/NAME.release to have it fetched again. What no registry has is listed
as such. The exit code is 1 when something that the table below has could not be fetched.

A release is not trusted: a path that leads elsewhere refuses the whole archive, links and devices are left
out, and so is what is too much. pip runs the setup code of a source release to read its name and version, as
it does whenever it installs one. apt-get needs no rights: it works on lists of its own in a temporary folder,
from wherever the machine's own sources point to. A pinned Debian version that has been replaced in its suite
is replaced here, too, and the table says so.
"""

import argparse
import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from tamis.errors import BadJudgedSet
from tamis.measure.judged import JudgedSet, open_judged

SETS = Path(__file__).resolve().parents[2] / "shared" / "data" / "code"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = ("sid", "trixie", "bookworm")
MAX_FILES = 50_000  # the largest here, Django with its tests, has 9,000
MAX_BYTES = 1_000_000_000
SECONDS = 600  # for one call of a package client
REACHED = "neither PyPI nor npm nor Debian has its source"
_UNREACHED = re.compile(
    r"Retrying \(|Could not resolve|Could not connect|Cannot initiate|Connection (refused|timed out|failed)"
    r"|Temporary failure|E(NOTFOUND|CONNREFUSED|TIMEDOUT|AI_AGAIN)\b|Network is unreachable"
)
_ERROR = re.compile(r"(npm )?(E|Err|ERROR|error)\b")

Kind = Literal["pip", "npm", "deb", "source"]
File = tuple[str, bytes]


class Refused(Exception):
    """This release cannot be had, or must not be unpacked."""


@dataclass(frozen=True, slots=True)
class Release:
    """A package at a version, and how its files become those of the repository."""

    kind: Kind  # "source": Debian's copy of the original source
    package: str
    version: str
    inside: str = "*"  # this folder of the archive, a pattern part by part...
    at: str = ""  # ...is this folder of the repository
    suite: str = ""  # where Debian has it; another version there will do as well

    def __str__(self) -> str:
        return (
            f"{self.package} {self.version} ({'Debian' if self.suite else self.kind})"
        )


@dataclass(frozen=True, slots=True)
class Corpus:
    """What a set is asked about: the first of these releases that can be had."""

    releases: tuple[Release, ...]
    folder: str = ""  # the judged part of the repository
    without: tuple[
        str, ...
    ] = ()  # folders below it that the judged corpus does not have
    suffix: str = ""  # how the names of judged files end


def _debian(package: str, inside: str, at: str, **versions: str) -> tuple[Release, ...]:
    return tuple(
        Release("deb", package, version, inside, at, suite)
        for suite, version in versions.items()
    )


_GEM = "usr/share/rubygems-integration/all/gems"
# semble's sets: releases of about the time when they were made, or what Debian has. The swe sets: the last
# release before the snapshot, so that no fix is in the corpus; their README says source without tests.
CORPORA: dict[str, Corpus] = {
    "aiohttp": Corpus((Release("pip", "aiohttp", "3.13.5"),), "aiohttp"),
    "axum": Corpus(
        _debian(
            "librust-axum-dev",
            "usr/share/cargo/registry/axum-*",
            "axum",
            sid="0.8.9+0.8.9+ds-5",
            trixie="0.7.9-13",
        ),
        "axum/src",
    ),
    "bats-core": Corpus((Release("npm", "bats", "1.13.0"),), "lib"),
    "cobra": Corpus(
        _debian(
            "golang-github-spf13-cobra-dev",
            "usr/share/gocode/src/github.com/spf13/cobra",
            "",
            sid="1.10.2-1",
            trixie="1.8.1-1",
        )
    ),
    "express": Corpus((Release("npm", "express", "5.2.1"),), "lib"),
    "gson": Corpus(
        (Release("source", "libgoogle-gson-java", "2.10.1-1", suite="trixie"),), "gson"
    ),
    "libuv": Corpus((Release("source", "libuv1", "1.50.0-2", suite="trixie"),), "src"),
    "model2vec": Corpus((Release("pip", "model2vec", "0.8.2"),), "model2vec"),
    "monolog": Corpus(
        _debian(
            "php-monolog",
            "usr/share/php/Monolog",
            "src/Monolog",
            sid="3.12.1-1",
            trixie="3.9.0-1",
        ),
        "src/Monolog",
    ),
    "rack": Corpus(
        _debian(
            "ruby-rack", f"{_GEM}/rack-*", "", sid="3.2.7-1", trixie="3.1.20-0+deb13u1"
        ),
        "lib/rack",
    ),
    "rails": Corpus(
        _debian(
            "ruby-railties",
            f"{_GEM}/railties-*",
            "railties",
            sid="2:7.2.4+dfsg-2",
            trixie="2:7.2.2.2+dfsg-2~deb13u1",
        ),
        "railties/lib/rails",
    ),
    "requests": Corpus((Release("pip", "requests", "2.33.1"),), "src/requests"),
    "telescope.nvim": Corpus(
        _debian(
            "neovim-telescope",
            "usr/share/neovim-telescope",
            "",
            sid="0.2.2-1",
        ),
        "lua/telescope",
    ),
    "trpc": Corpus(
        (Release("npm", "@trpc/server", "11.16.0", at="packages/server"),),
        "packages/server/src",
    ),
    "xmonad": Corpus(
        (Release("source", "xmonad", "0.17.1-1", suite="bookworm"),), "src/XMonad"
    ),
    "zod": Corpus(
        (Release("npm", "zod", "4.3.6", at="packages/zod"),), "packages/zod/src"
    ),
    "swe-django": Corpus((Release("pip", "Django", "2.2.2"),), "django", suffix=".py"),
    "swe-pytest": Corpus((Release("pip", "pytest", "4.5.0"),), "src", suffix=".py"),
    "swe-requests": Corpus(
        (Release("pip", "requests", "1.1.0"),),
        "requests",
        ("requests/packages",),
        suffix=".py",
    ),
    "swe-xarray": Corpus(
        (Release("pip", "xarray", "0.12.3"),), "xarray", ("xarray/tests",), suffix=".py"
    ),
}
NOT_TO_BE_HAD = dict.fromkeys(
    ("dapper", "ecto", "exposed", "phoenix", "vapor", "zig-clap"), REACHED
)


# --- unpacking ------------------------------------------------------------------------------


def in_tar(archive: tarfile.TarFile) -> Iterator[File]:
    """The plain files of an archive, with their paths in it. Sizes are looked at before anything is read."""
    count = size = 0
    for member in archive:
        path = safe(member.name)
        count, size = count + 1, size + member.size
        if count > MAX_FILES or size > MAX_BYTES:
            raise Refused(
                f"the archive has more than {MAX_FILES:,} files or {MAX_BYTES:,} bytes"
            )
        content = archive.extractfile(member) if member.isreg() else None
        if path and content:
            yield path, content.read()


def in_folder(folder: Path) -> Iterator[File]:
    """The plain files of a folder, as if it were an archive."""
    for parent, _, names in os.walk(folder):
        for file in sorted(Path(parent, name) for name in names):
            if file.is_file() and not file.is_symlink():
                yield file.relative_to(folder).as_posix(), file.read_bytes()


def safe(path: str) -> str:
    """A path in an archive without its dots, or none; one that leads out of it refuses the archive."""
    parts = PurePosixPath(path).parts
    if ".." in parts or path.startswith("/") or "\\" in path or "\0" in path:
        raise Refused(f"the archive has a file {path!r}, which would lie elsewhere")
    return "/".join(parts)


def laid_out(path: str, release: Release, corpus: Corpus, *, whole: bool) -> str | None:
    """Where a file of the archive belongs in the repository; None for one that is left out."""
    wanted, parts = release.inside.split("/"), path.split("/")
    if len(parts) <= len(wanted) or not all(map(fnmatchcase, parts, wanted)):
        return None
    place = "/".join(([release.at] if release.at else []) + parts[len(wanted) :])
    return place if whole or _is_judged(place, corpus) else None


def _is_judged(path: str, corpus: Corpus) -> bool:
    inside = _below(path, corpus.folder) and path.endswith(corpus.suffix)
    return inside and not any(_below(path, folder) for folder in corpus.without)


def _below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def write_tree(
    files: Iterable[File], root: Path, place: Callable[[str], str | None]
) -> int:
    """Write the files that have a place below the root, and count them."""
    count = 0
    for path, content in files:
        if (target := place(path)) is not None:
            (root / target).parent.mkdir(parents=True, exist_ok=True)
            (root / target).write_bytes(content)
            count += 1
    return count


# --- the package clients --------------------------------------------------------------------


def run(command: Sequence[str], folder: Path, **environment: str) -> str:
    """What a package client prints; what it complains of when it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
        )
    except FileNotFoundError as error:
        raise Refused(f"{command[0]} is not on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise Refused(
            f"no answer for {SECONDS} s: is the registry reached from here?"
        ) from error
    if done.returncode:
        raise Refused(_complaint(done.stderr or done.stdout))
    return done.stdout


def _complaint(text: str) -> str:
    """The line that says why; when the registry did not answer, that is what is said."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    silent = next((line for line in lines if _UNREACHED.search(line)), "")
    if silent:
        return f"the registry cannot be reached: {silent[:200]}"
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines or ["it failed without a word"])[0][:200]


def fetched(release: Release, folder: Path) -> tuple[str, Iterator[File]]:
    """The version that was found, and its files."""
    return {"pip": _pip, "npm": _npm, "deb": _deb, "source": _source}[release.kind](
        release, folder
    )


def _pip(release: Release, folder: Path) -> tuple[str, Iterator[File]]:
    """The source release: it has tests and documentation, a wheel does not."""
    wanted = f"{release.package}=={release.version}"
    options = [
        "--quiet",
        "--no-deps",
        "--no-clean",
        "--no-binary",
        ":all:",
        "--dest",
        str(folder),
    ]
    try:
        run(
            [sys.executable, "-m", "pip", "download", *options, wanted],
            folder,
            TMPDIR=str(folder),
        )
    except Refused:
        # Setup code of long ago fails on a Python of today, after pip has unpacked the files.
        unpacked = list(folder.glob("pip-download-*/*_*/setup.py"))
        if len(unpacked) != 1:
            raise
        tree = unpacked[0].parent
        return release.version, (
            (f"{release.package}/{path}", content) for path, content in in_folder(tree)
        )
    return release.version, _in_file(only(folder, "*.tar.gz"))


def _npm(release: Release, folder: Path) -> tuple[str, Iterator[File]]:
    wanted = f"{release.package}@{release.version}"
    run(["npm", "pack", "--loglevel=error", "--ignore-scripts", wanted], folder)
    return release.version, _in_file(only(folder, "*.tgz"))


def _deb(release: Release, folder: Path) -> tuple[str, Iterator[File]]:
    version = _from_debian(["download"], release, folder)
    package = only(folder, "*.deb")
    with (folder / "files.tar").open("wb") as unpacked:
        subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", package.name],
            cwd=folder,
            stdout=unpacked,
            check=True,
        )
    return version or _version_in(package.name), _in_file(folder / "files.tar")


def _source(release: Release, folder: Path) -> tuple[str, Iterator[File]]:
    version = _from_debian(["source", "--download-only", "--tar-only"], release, folder)
    archive = only(folder, "*.orig.tar.*")
    return version or _version_in(archive.name), _in_file(archive)


def _from_debian(command: Sequence[str], release: Release, folder: Path) -> str:
    """Fetch the pinned version, or else what its suite has now: then the answer is empty."""
    try:
        run([*apt_get(), *command, f"{release.package}={release.version}"], folder)
    except Refused:
        run([*apt_get(), *command, f"{release.package}/{release.suite}"], folder)
        return ""
    return release.version


def _version_in(name: str) -> str:
    return re.sub(r"\.orig\.tar\..*$", "", name.replace("%3a", ":")).split("_")[1]


def apt_get() -> list[str]:
    """apt-get with lists of its own; what stopped the first attempt stops the others at once."""
    command, complaint = _apt_get()
    if complaint:
        raise Refused(complaint)
    return command


@cache
def _apt_get() -> tuple[list[str], str]:
    home = Path(tempfile.mkdtemp(prefix="fetch-code-apt-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    try:
        return _with_lists(home), ""
    except Refused as error:
        return [], str(error)


def _with_lists(home: Path) -> list[str]:
    """The suites that the table names, from the mirror that the machine's own sources name."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (home / folder).mkdir(parents=True)
    own = {
        "Dir::State": home / "state",
        "Dir::Cache": home / "cache",
        "APT::Sandbox::User": "root",
    }
    command = ["apt-get", "-q"] + [f"-o{key}={value}" for key, value in own.items()]
    mirror = re.search(
        r"'(\S+/debian)/+dists/", run([*command, "update", "--print-uris"], home)
    )
    if mirror is None:
        raise Refused("apt-get has no Debian archive among its sources")
    signed = f"[signed-by={KEYRING}] " if Path(KEYRING).exists() else ""
    lines = [
        f"{kind} {signed}{mirror[1]} {suite} main\n"
        for kind in ("deb", "deb-src")
        for suite in SUITES
    ]
    (home / "sources.list").write_text("".join(lines))
    command += [
        f"-oDir::Etc::SourceList={home / 'sources.list'}",
        "-oDir::Etc::SourceParts=-",
    ]
    run([*command, "update", "--error-on=any"], home)
    return command


def only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise Refused(f"expected one {pattern}, got {len(found)}")
    return found[0]


def _in_file(archive: Path) -> Iterator[File]:
    with tarfile.open(archive) as opened:
        yield from in_tar(opened)


# --- one set after the other ----------------------------------------------------------------


def fetch(name: str, to: Path, *, whole: bool) -> str:
    """Have the corpus of a set below `to`, and say which release it is."""
    note = to / f"{name}.release"
    if (to / name).is_dir():
        return (
            f"{note.read_text().strip() if note.is_file() else 'a tree'}, from before"
        )
    corpus, reasons = CORPORA[name], []
    for release in corpus.releases:
        try:
            said = _made(release, corpus, to / name, whole=whole)
        except (
            Refused,
            OSError,
            EOFError,
            tarfile.TarError,
            subprocess.SubprocessError,
        ) as error:
            reasons.append(f"{release}: {error}")
        else:
            note.write_text(f"{said}\n")
            return said
    raise Refused("; ".join(reasons))


def _made(release: Release, corpus: Corpus, target: Path, *, whole: bool) -> str:
    """The folder gets its name when it is whole: half of one is never used."""
    with tempfile.TemporaryDirectory(prefix="unfinished-", dir=target.parent) as folder:
        (downloads := Path(folder, "downloads")).mkdir()
        (tree := Path(folder, "tree")).mkdir()
        version, files = fetched(release, downloads)
        count = write_tree(
            files, tree, lambda path: laid_out(path, release, corpus, whole=whole)
        )
        if not count:
            raise Refused("nothing of what is in it belongs to the corpus")
        shutil.move(tree, target)
    instead = "" if version == release.version else f" (instead of {release.version})"
    part = "" if whole or not corpus.folder else f", {corpus.folder} alone"
    return f"{release.package} {version}{instead}{part}"


def set_folder(name: str, sets: Path) -> Path:
    return sets / name if name.startswith("swe-") else sets / "semble" / name


def counts(name: str, tree: Path, sets: Path) -> dict[str, int | str]:
    """How much of a set the tree can answer."""
    files = sum(1 for file in tree.rglob("*") if file.is_file())
    folder = set_folder(name, sets)
    if not folder.is_dir():
        return {"files": files}
    judged = {
        line.split("\t")[1]
        for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]
    }
    asked = opened(folder, tree)
    return {
        "files": files,
        "paths": f"{sum((tree / path).is_file() for path in judged)}/{len(judged)}",
        "questions": f"{len(asked.questions)}/{len(asked.questions) + asked.orphaned + asked.unjudged}",
    }


def opened(folder: Path, tree: Path) -> JudgedSet:
    with tempfile.TemporaryDirectory() as work:
        return open_judged(folder, Path(work), tree)[0]


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    arguments.add_argument(
        "names", nargs="*", metavar="NAME", help="sets, by their folder; else all"
    )
    arguments.add_argument(
        "--to", type=Path, default=Path("corpora"), help="where the trees go (corpora)"
    )
    arguments.add_argument(
        "--sets", type=Path, default=SETS, help="the folder with semble/ and swe-*/"
    )
    arguments.add_argument(
        "--whole", action="store_true", help="keep all that a release has"
    )
    arguments.add_argument(
        "--json", action="store_true", help="one object for each set, a line each"
    )
    given = arguments.parse_args()
    known = CORPORA.keys() | NOT_TO_BE_HAD.keys()
    if unknown := [name for name in given.names if name not in known]:
        arguments.error(
            f"no set is called {', '.join(unknown)}; known: {', '.join(sorted(known))}"
        )
    to = given.to.expanduser().absolute()
    to.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in given.names or sorted(known):
        row = _row(name, to, given.sets, whole=given.whole)
        failed += "missing" in row and name in CORPORA
        print(json.dumps(row) if given.json else _line(row), flush=True)
    return 1 if failed else 0


def _row(name: str, to: Path, sets: Path, *, whole: bool) -> dict[str, int | str]:
    if name in NOT_TO_BE_HAD:
        return {"set": name, "missing": NOT_TO_BE_HAD[name]}
    try:
        release = fetch(name, to, whole=whole)
        return {"set": name, "release": release, **counts(name, to / name, sets)}
    except (Refused, BadJudgedSet) as error:
        return {"set": name, "missing": str(error)}


def _line(row: dict[str, int | str]) -> str:
    if "missing" in row:
        return f"{row['set']:<16}not to be had: {row['missing']}"
    figures = f"{row['files']:>5} files"
    if "paths" in row:
        figures += f", {row['paths']:>7} judged paths, {row['questions']:>7} questions"
    return f"{row['set']:<16}{figures}  {row['release']}"


if __name__ == "__main__":
    sys.exit(main())
