"""Ignore files to start from: what `tamis init` writes."""

from pathlib import Path

from tamis.errors import UsageError, storage_faults

_HEAD = """\
# {name}: what tamis leaves out of its index, on top of .gitignore and the built-in defaults.
# Syntax as in .gitignore; `!pattern` takes back what a weaker rule ignores; `:include:FILE` takes in
# another file's patterns. See what a path comes to with: tamis explain-ignore PATH
#
# Archived material (.archive/, *_backup/, *.old ...) need not be listed: it is indexed and hidden, and
# found with `tamis search --archived`. List it here to leave it out altogether.
"""

_BODIES = {
    "general": """\
# Build output
dist/
build/
target/
__pycache__/
*.pyc

# Dependencies
node_modules/

# Test fixtures and mocks
test/fixtures/
test/mocks/
**/__mocks__/

# Temporary files
*.tmp
*.temp
.cache/
tmp/

# Editors
.idea/
.vscode/
*.swp
*.swo
*~

# Binaries
*.bin
*.dat
*.db
*.sqlite

# Generated files
*.generated.*
*_gen.go
*.pb.go
""",
    "react": """\
# Build output
build/
dist/
.next/
out/

# Dependencies
node_modules/
.pnp/
.pnp.js
package-lock.json

# Testing
coverage/
.nyc_output/
**/__snapshots__/

# Storybook
storybook-static/
.storybook-out/

# Minified and mapped
*.min.js
*.min.css
*.map

# Editors
.idea/
.vscode/
*.swp

# Operating systems
.DS_Store
Thumbs.db

# Always in
!src/
!components/
!pages/
!public/
""",
    "python": """\
# Bytecode and caches
__pycache__/
*.py[cod]
.mypy_cache/
.pytest_cache/

# Environments
.venv/
venv/
env/
.tox/
.nox/

# Build output
build/
dist/
*.egg-info/
*.egg

# Testing
htmlcov/
.coverage*
tests/fixtures/

# Notebook and data leftovers
.ipynb_checkpoints/
*.pkl
*.parquet

# Generated code
*_pb2.py
*_pb2_grpc.py
""",
    "go": """\
# Dependencies
vendor/
go.sum

# Build output
bin/
dist/
*.exe
*.test
*.out

# Generated code
*.pb.go
*_gen.go
zz_generated*.go
*_string.go
mock_*.go

# Test data
testdata/
""",
    "rust": """\
# Build output
target/
**/*.rs.bk

# Locks
Cargo.lock

# Test data
tests/snapshots/
*.snap
fuzz/corpus/
fuzz/artifacts/
""",
}
KINDS = tuple(_BODIES)


def write_template(
    root: Path,
    kind: str,
    name: str,
    *,
    replace: bool,
) -> Path:
    """Write the ignore file of a root; an existing one is kept unless it may be replaced.

    It includes `.gitignore` if there is one.
    """
    target = root / name
    if target.exists() and not replace:
        raise UsageError(
            f"{target} is there already",
            hint="edit it, or give --force to write it anew",
        )
    parts = [_HEAD.format(name=name), _BODIES[kind]]
    with storage_faults(root):
        if (root / ".gitignore").exists():
            parts.insert(1, ":include:.gitignore\n")
        target.write_text("\n".join(parts), encoding="utf-8")
    return target
