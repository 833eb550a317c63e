"""What an import refers to, by language: a table."""

import pytest

from tamis.ingest.code.imports import import_targets
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.settings import ChunkingSettings

# The file, what it says, and what that leads to. The statements go through the grammars.
TABLE = [
    ("pkg/a.py", "import a.b.c\n", ["a/b/c"]),
    ("pkg/a.py", "import a as b, c.d as e\n", ["a", "c/d"]),
    ("pkg/a.py", "from a.b import c\n", ["a/b/c", "a/b"]),
    ("pkg/a.py", "from a import (\n    b as c,  # why, not\n    d,\n)\n", ["a/b", "a/d", "a"]),
    ("pkg/a.py", "from a import *\n", ["a"]),
    ("pkg/a.py", "from .b import c\n", ["/pkg/b/c", "/pkg/b"]),
    ("pkg/a.py", "from . import c\n", ["/pkg/c", "/pkg"]),
    ("pkg/sub/a.py", "from ..b import c\n", ["/pkg/b/c", "/pkg/b"]),
    ("a.py", "from . import c\n", ["/c"]),
    ("a.py", "from ..b import c\n", []),
    ("src/a.ts", "import x from './x';\n", ["/src/x"]),
    ("src/a.ts", "import type { X } from '../t/x.js';\n", ["/t/x.js", "/t/x"]),
    ("src/a.tsx", "import x from './x.mjs';\nimport y from './y.jsx';\n",
     ["/src/x.mjs", "/src/x", "/src/y.jsx", "/src/y"]),
    ("src/a.ts", "import x from './x.json';\nimport './.js';\n", ["/src/x.json", "/src/.js"]),
    ("src/a.js", "import x from './x.js';\n", ["/src/x.js"]),
    ("src/a.ts", "import x = require('./y');\n", ["/src/y"]),
    ("src/a.js", "import './side';\nexport * from './z';\n", ["/src/side", "/src/z"]),
    ("src/a.js", "const r = require('./r'), s = await import('./s');\n", ["/src/r", "/src/s"]),
    ("src/a.js", "import React from 'react';\nrequire('fs');\nimport('@/x');\n", []),
    ("src/a.js", "import x from './x.svg?raw';\nimport y from '../../out';\n", ["/src/x.svg"]),
    ("src/a.c", '#include "x.h"\n#include <x/y.h>\n', ["/src/x.h", "x/y.h"]),
    ("src/a.cpp", '#include "../inc/x.h"\n#include "lib/y.h"\n', ["/inc/x.h", "/src/lib/y.h", "lib/y.h"]),
    ("a.go", 'package a\nimport "fmt"\nimport (\n\tx "a.b/c"\n\t`d/e`\n)\n', ["fmt", "a.b/c", "d/e"]),
    ("src/lib.rs", "mod x;\npub mod y;\nmod z { }\n", ["/src/x", "/src/y"]),
    ("src/a.rs", "mod x;\n", ["/src/a/x"]),
    ("src/a.rs", "use crate::a::b;\n", ["a/b", "a"]),
    ("src/a.rs", "use crate::a::{b, c::D as E, self};\n", ["a/b", "a", "a/c/D", "a/c"]),
    ("src/a/b.rs", "use super::x::Y;\nuse self::z::*;\n", ["/src/a/x/Y", "/src/a/x", "/src/a/b/z"]),
    ("src/a/mod.rs", "pub(crate) use super::x::*;\n", ["/src/x"]),
    ("A.java", "import com.x.Y;\nimport com.q.*;\n", ["com/x/Y", "com/q"]),
    ("A.java", "import static com.x.Y.z;\n", ["com/x/Y/z", "com/x/Y"]),
    ("A.java", "import com.x.Y.Z;\nimport com.x.Y.*;\n", ["com/x/Y/Z", "com/x/Y"]),
    ("A.java", "import static com.x.Y.Z.f;\n", ["com/x/Y/Z/f", "com/x/Y/Z", "com/x/Y"]),
    ("a.kt", "import com.x.Y\nimport com.x.Z as Q\nimport com.q.*\n", ["com/x/Y", "com/x/Z", "com/q"]),
    ("a.scala", "import com.x.Y\nimport a.{B, C => D, _}\n", ["com/x/Y", "a/B", "a/C", "a"]),
    ("a.cs", "using A.B;\nusing X = C.D;\nusing static E.F;\n", ["A/B", "C/D", "E/F"]),
    ("src/a.php", "<?php\nuse A\\B\\C;\nuse A\\{D, E as F};\n", ["A/B/C", "A/D", "A/E"]),
    ("src/a.php", "<?php\nuse function X\\y;\n", ["X/y"]),
    ("src/a.php", "<?php\nrequire_once __DIR__ . '/x.php';\n", ["/src/x.php"]),
    ("src/a.php", "<?php\ninclude('y.php');\n", ["/src/y.php"]),
    ("src/a.php", "<?php\nrequire $x;\nrequire \"$dir/x.php\";\n", []),
    ("lib/a.rb", "require 'a/b'\nrequire_relative '../c'\n", ["a/b", "/c"]),
    ("lib/a.rb", 'require "#{x}/b"\n', []),
    ("bin/a.sh", "source ./x.sh\n. ../lib/y.sh\nsource z.sh\n", ["/bin/x.sh", "/lib/y.sh", "/bin/z.sh"]),
    ("bin/a.sh", 'source "$DIR/x.sh"\n. /etc/profile\n', []),
    ("a.lua", "local a = require \"a.b\"\nrequire('c/d')\nrequire [[e]]\n", ["a/b", "c/d", "e"]),
    ("a.swift", "import Foundation\n", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "text", "targets"),
    TABLE,
    ids=[f"{row[0]}-{n}" for n, row in enumerate(TABLE)],
)
def test_what_a_file_imports(path, text, targets):
    """Issue 4: imports become links between files where they resolve."""
    made, warning = parse(
        Source(path, text, b"", len(text), 0, 0, 0, 0), ChunkingSettings()
    )
    assert warning == ""
    assert [link.target for link in made.links] == targets
    assert {(link.type, link.ordinal) for link in made.links} <= {("import", 0)}


@pytest.mark.parametrize(
    "language",
    ["python", "rust", "php", "scala", "java", "csharp", "bash", "c", "lua", "x"],
)
@pytest.mark.parametrize(
    "statement",
    ["", "use", "import", "from", "from . import", "use {{{{", "use }}}}", "use a::" + "{b::" * 5000,
     "source", "import " + "a," * 100_000, "use a::{" + "b," * 100_000 + "}", "from a import (",
     "from " + "." * 9999, "import " + "a." * 100_000, "\0", "/*" * 10_000, "// a"],
    ids=range(17),
)  # fmt: skip
def test_a_damaged_statement_is_no_fault(language, statement):
    """A grammar hands on what it took for a statement, whatever that is."""
    found = import_targets("src/a.x", statement, language)
    assert len(found) <= 500
    assert all(0 < len(target) <= 300 for target in found)


def test_none_leads_out_of_the_root():
    for target in ("../../x", "../..", "..", "../../../etc/passwd"):
        assert import_targets("src/a.ts", f"'{target}'", "typescript") == []
    assert import_targets("src/a.ts", "'../..x'", "typescript") == ["/..x"]
