"""The languages whose source we can read: one grammar package each, and what in it is a definition.

A grammar is a package with a tree-sitter parser, imported when its language is first asked for, and
a query in tree-sitter's own notation. What a query captures:

- `@name` is the name of the definition, and the definition around it is named after its kind
  (`@function`, `@class`...). Of two patterns that catch the same name the earlier decides.
- `@within` is what a definition belongs to where it does not stand inside it (Go's receivers).
- `@above` goes with the definition below it (comments, attributes), `@wrap` with the definition
  that ends where it ends (decorators, `export`, `template <...>`).
- `@constant` is a definition too: a name that is given a value once, as its language or its capitals say.
- `@import` says what the file refers to; `tamis.ingest.code.imports` reads it.
- What begins with `_` is there for a condition only.

This file knows trees and nothing of text; `tamis.ingest.code.symbols` makes definitions of what it catches.
`captures` runs foreign code on foreign text: it may hang, and it may crash the process. So the file is also
a program, which `tamis.ingest.code.child` starts and asks. It imports nothing of ours.

    python -I -S grammars.py SECONDS PATH...

Requests come on its input, answers go to its output; it ends with its input, or when it was not asked for
so many seconds. The paths are where packages are.
"""

import contextlib
import json
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from operator import itemgetter
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query


# What else a query can capture, besides kinds of definitions.
ABOVE = "above"
WRAP = "wrap"
ERROR = "error"
IMPORT = "import"
CONSTANT = "constant"

# Real source takes 0.3 to 1 microsecond a byte (benchmarks/symbols.py), the densest that can be made (a list
# of digits) 2.5. This is four times that, and half a second. A grammar is loaded before the clock starts.
_SECONDS = 0.5
_SECONDS_PER_BYTE = 1e-5
# The largest file that is read (2 MB) takes under a gigabyte.
_MEMORY = 3 << 30

# Deeper than any source people write, and a bound on how far a hostile one leads us.
_MAX_DEPTH = 500
# Steps from a C declarator to its name: `int (*(*f)(void))[3]` takes seven.
_MAX_DECLARATORS = 32
# The bodies in grammars that do not say which part is the body.
_BODIES = ("_body", "declaration_list", "block")
_CONTINUATION = bytes(range(0x80, 0xC0))  # bytes that begin no character
_COUNTED = 1024  # bytes whose characters are counted at once
_PARTS = frozenset({"name", "within"})  # captures that are no kinds
# How most languages write a constant.
_CAPITALS = '(#match? @name "^_*[A-Z][A-Z0-9_]*$")'


class Capture(NamedTuple):
    """A node that a query caught, in characters of the text."""

    kind: str
    start: int
    end: int
    name: tuple[int, int]  # empty for what is no definition
    within: tuple[int, int]  # mostly empty
    body: int  # where its body begins; its end, if it has none

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


_PYTHON = f"""
(function_definition name: (_) @name) @function
(class_definition name: (_) @name) @class
(decorated_definition) @wrap
(comment) @above
((module (expression_statement (assignment left: (identifier) @name)) @constant) {_CAPITALS})
(import_statement) @import
(import_from_statement) @import
"""
_SCRIPT = f"""
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(function_expression name: (_) @name) @function
(class_declaration name: (_) @name) @class
(class name: (_) @name) @class
(method_definition name: (_) @name) @method
(variable_declarator name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function
(variable_declarator name: (identifier) @name value: (class)) @class
(assignment_expression left: [(identifier) (member_expression)] @name
  right: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression left: [(identifier) (member_expression)] @name right: (class)) @class
(pair key: [(property_identifier) (string)] @name
  value: [(arrow_function) (function_expression) (generator_function)]) @method
(lexical_declaration) @wrap
(variable_declaration) @wrap
(export_statement) @wrap
(comment) @above
(decorator) @above
((program [
  (lexical_declaration (variable_declarator name: (identifier) @name))
  (export_statement declaration: (lexical_declaration (variable_declarator name: (identifier) @name)))
  ] @constant) {_CAPITALS})
(import_statement source: (string) @import)
(export_statement source: (string) @import)
(call_expression function: (import) arguments: (arguments . (string) @import))
((call_expression function: (identifier) @_called arguments: (arguments . (string) @import))
  (#eq? @_called "require"))
"""
_JAVASCRIPT = """
(field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @method
"""
_TYPESCRIPT = """
(function_signature name: (_) @name) @function
(method_signature name: (_) @name) @method
(construct_signature "new" @name) @method
(abstract_method_signature name: (_) @name) @method
(public_field_definition name: (_) @name value: [(arrow_function) (function_expression)]) @method
(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(type_alias_declaration name: (_) @name) @type
(enum_declaration name: (_) @name) @enum
(internal_module name: (_) @name) @namespace
(module name: (_) @name) @namespace
(ambient_declaration) @wrap
(import_require_clause source: (string) @import)
"""
_GO = """
(function_declaration name: (_) @name) @function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: (_) @within)) name: (_) @name) @method
(type_spec name: (_) @name type: (struct_type)) @struct
(type_spec name: (_) @name type: (interface_type)) @interface
(type_spec name: (_) @name) @type
(type_alias name: (_) @name) @type
(method_elem name: (_) @name) @method
(type_declaration) @wrap
(comment) @above
(source_file (const_declaration (const_spec name: (identifier) @name)) @constant)
(import_spec path: (_) @import)
"""
_RUST = """
(function_item name: (_) @name) @function
(function_signature_item name: (_) @name) @function
(struct_item name: (_) @name) @struct
(enum_item name: (_) @name) @enum
(union_item name: (_) @name) @union
(trait_item name: (_) @name) @trait
(impl_item type: (_) @name) @impl
(mod_item name: (_) @name body: (_)) @module
(type_item name: (_) @name) @type
(associated_type name: (_) @name) @type
(macro_definition name: (_) @name) @macro
(line_comment) @above
(block_comment) @above
(attribute_item) @above
(const_item name: (_) @name) @constant
(static_item name: (_) @name) @constant
(use_declaration) @import
(mod_item name: (_) !body) @import
"""
_JAVA = """
(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(record_declaration name: (_) @name) @record
(annotation_type_declaration name: (_) @name) @interface
(method_declaration name: (_) @name) @method
(constructor_declaration name: (_) @name) @method
(compact_constructor_declaration name: (_) @name) @method
(annotation_type_element_declaration name: (_) @name) @method
(line_comment) @above
(block_comment) @above
(import_declaration) @import
"""
_C = """
(function_definition declarator: (_) @name) @function
(declaration declarator: (function_declarator) @name) @prototype
(declaration declarator: (pointer_declarator declarator: (function_declarator) @name)) @prototype
(struct_specifier name: (_) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @union
(enum_specifier name: (_) @name body: (_)) @enum
(type_definition declarator: (_) @name) @typedef
(preproc_function_def name: (_) @name) @macro
(comment) @above
(preproc_def name: (_) @name value: (_)) @constant
((declaration
  (type_qualifier) @_qualifier . type: (_) declarator: (init_declarator declarator: (_) @name)) @constant
  (#match? @_qualifier "^const"))
(preproc_include path: (_) @import)
"""
_CPP = """
(class_specifier name: (_) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(field_declaration declarator: (function_declarator) @name) @prototype
(field_declaration declarator: (pointer_declarator declarator: (function_declarator) @name)) @prototype
(field_declaration declarator: (reference_declarator (function_declarator) @name)) @prototype
(declaration declarator: (reference_declarator (function_declarator) @name)) @prototype
(declaration declarator: (operator_cast) @name) @prototype
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @type
(template_declaration) @wrap
"""
_CSHARP = """
(class_declaration name: (_) @name) @class
(struct_declaration name: (_) @name) @struct
(interface_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(record_declaration name: (_) @name) @record
(namespace_declaration name: (_) @name) @namespace
(delegate_declaration name: (_) @name) @type
(method_declaration name: (_) @name) @method
(constructor_declaration name: (_) @name) @method
(destructor_declaration name: (_) @name) @method
(operator_declaration operator: _ @name) @method
(property_declaration name: (_) @name) @property
(local_function_statement name: (_) @name) @function
(comment) @above
(using_directive) @import
"""
_RUBY = f"""
(method name: (_) @name) @method
(singleton_method name: (_) @name) @method
(class name: (_) @name) @class
(module name: (_) @name) @module
(assignment left: (constant) @name right: (call block: (_))) @class
(comment) @above
((program (assignment left: (constant) @name) @constant) {_CAPITALS})
((call method: (identifier) @_called arguments: (argument_list . (string))) @import
  (#match? @_called "^(require|require_relative|load)$"))
"""
_PHP = """
(function_definition name: (_) @name) @function
(method_declaration name: (_) @name) @method
(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(trait_declaration name: (_) @name) @trait
(enum_declaration name: (_) @name) @enum
(namespace_definition name: (_) @name body: (_)) @namespace
(assignment_expression left: (variable_name (name) @name)
  right: [(anonymous_function) (arrow_function)]) @function
(comment) @above
(program (const_declaration (const_element . (name) @name)) @constant)
(namespace_use_declaration) @import
(require_expression) @import
(require_once_expression) @import
(include_expression) @import
(include_once_expression) @import
"""
_BASH = f"""
(function_definition name: (_) @name) @function
(comment) @above
((program (variable_assignment name: (variable_name) @name) @constant) {_CAPITALS})
((program (declaration_command (variable_assignment name: (variable_name) @name)) @constant) {_CAPITALS})
((command name: (command_name) @_called) @import (#match? @_called "^(source|[.])$"))
"""
_KOTLIN = f"""
(class_declaration "interface" name: (_) @name) @interface
(class_declaration name: (_) @name) @class
(object_declaration name: (_) @name) @object
(companion_object name: (_) @name) @object
(companion_object !name "companion" @name) @object
(function_declaration name: (_) @name) @function
(secondary_constructor "constructor" @name) @method
(type_alias type: (_) @name) @type
(line_comment) @above
(block_comment) @above
((source_file (property_declaration (variable_declaration (identifier) @name)) @constant) {_CAPITALS})
(import) @import
"""
_SCALA = f"""
(class_definition name: (_) @name) @class
(object_definition name: (_) @name) @object
(trait_definition name: (_) @name) @trait
(enum_definition name: (_) @name) @enum
(function_definition name: (_) @name) @function
(function_declaration name: (_) @name) @function
(given_definition name: (_) @name) @object
(type_definition name: (_) @name) @type
(comment) @above
(block_comment) @above
((compilation_unit (val_definition pattern: (identifier) @name) @constant) {_CAPITALS})
(import_declaration) @import
"""
_LUA = f"""
(function_declaration name: (_) @name) @function
(assignment_statement
  (variable_list . name: (_) @name) (expression_list . value: (function_definition))) @function
(field name: (_) @name value: (function_definition)) @method
(variable_declaration) @wrap
(comment) @above
((chunk [
  (assignment_statement (variable_list . name: (identifier) @name))
  (variable_declaration (assignment_statement (variable_list . name: (identifier) @name)))
  ] @constant) {_CAPITALS})
((function_call name: (identifier) @_called arguments: (arguments . (string))) @import
  (#eq? @_called "require"))
"""
_SWIFT = f"""
(class_declaration declaration_kind: "struct" name: (_) @name) @struct
(class_declaration declaration_kind: "enum" name: (_) @name) @enum
(class_declaration declaration_kind: "extension" name: (_) @name) @extension
(class_declaration name: (_) @name) @class
(protocol_declaration name: (_) @name) @interface
(function_declaration name: (simple_identifier) @name) @function
(protocol_function_declaration name: (simple_identifier) @name) @method
(init_declaration "init" @name) @method
(deinit_declaration "deinit" @name) @method
(typealias_declaration name: (type_identifier) @name) @type
(comment) @above
(multiline_comment) @above
((source_file (property_declaration name: (pattern bound_identifier: (_) @name)) @constant) {_CAPITALS})
"""

# The query of each language.
GRAMMARS = {
    "bash": _BASH,
    "c": _C,
    "cpp": _C + _CPP,
    "csharp": _CSHARP,
    "go": _GO,
    "java": _JAVA,
    "javascript": _SCRIPT + _JAVASCRIPT,
    "kotlin": _KOTLIN,
    "lua": _LUA,
    "php": _PHP,
    "python": _PYTHON,
    "ruby": _RUBY,
    "rust": _RUST,
    "scala": _SCALA,
    "swift": _SWIFT,
    "tsx": _SCRIPT + _TYPESCRIPT,
    "typescript": _SCRIPT + _TYPESCRIPT,
}
# Where the package is not called like the language.
_PACKAGES = {"csharp": "c_sharp", "tsx": "typescript"}
# Where a package has several grammars.
_ENTRIES = frozenset({"php", "tsx", "typescript"})


def captures(source: bytes, language: str) -> list[Capture]:
    """Return the captures of UTF-8 source, in the order of the text, outer before inner."""
    from tree_sitter import Parser, QueryCursor

    grammar, query = _loaded(language)
    tree = Parser(grammar).parse(source)
    cursor = QueryCursor(query)
    cursor.set_max_start_depth(_MAX_DEPTH)
    character = characters(source)

    def span(node: "Node | None") -> tuple[int, int]:
        if node is None:
            return 0, 0
        return character(node.start_byte), character(node.end_byte)

    named: set[int] = set()
    found: list[Capture] = []
    matches = cursor.matches(tree.root_node)
    for _, match in sorted(matches, key=itemgetter(0)):
        name = _name(match["name"][0]) if "name" in match else None
        if name and name.start_byte in named:
            continue
        kinds = [kind for kind in match if kind not in _PARTS]
        kind = next(kind for kind in kinds if not kind.startswith("_"))
        node = match[kind][0]
        body = 0
        if name:
            named.add(name.start_byte)
            # A declaration may hold thousands of constants, and none has a body.
            if kind != CONSTANT:
                body = character(_body(node, name))
        within = match.get("within", [None])[0]
        capture = Capture(kind, *span(node), span(name), span(within), body)
        found.append(capture)
    return sorted(found, key=lambda capture: (capture.start, -capture.end))


def characters(source: bytes) -> Callable[[int], int]:
    """Return a function from places in UTF-8 to characters."""
    if source.isascii():
        return int

    def count(start: int, end: int) -> int:
        return len(source[start:end].translate(None, _CONTINUATION))

    before = [0]  # characters before each block of bytes
    for start in range(0, len(source), _COUNTED):
        before.append(before[-1] + count(start, start + _COUNTED))

    def character(place: int) -> int:
        number = place // _COUNTED
        return before[number] + count(number * _COUNTED, place)

    return character


@cache
def _loaded(language: str) -> "tuple[Language, Query]":
    from tree_sitter import Language, Query

    name = _PACKAGES.get(language, language)
    package = import_module(f"tree_sitter_{name}")
    entry = "language"
    if language in _ENTRIES:
        entry = f"language_{language}"
    grammar = Language(getattr(package, entry)())
    return grammar, Query(grammar, f"{GRAMMARS[language]}(ERROR) @{ERROR}")


def _name(node: "Node") -> "Node":
    """Return the name in a declarator of C: `*find(int x)` -> `find`. Any other node is a name already."""
    for _ in range(_MAX_DECLARATORS):
        if "declarator" not in node.type:
            break
        inner = node.child_by_field_name("declarator")
        if inner is None and node.named_children:
            inner = node.named_children[0]
        if inner is None:
            break
        node = inner
    return node


def _body(node: "Node", name: "Node") -> int:
    """Return the start of a definition's body, or of a comment before it; its end if it has none.

    Of a variable whose value is a function or a class, the body of that.
    """
    after = name.start_byte
    for field in ("value", "right", "type"):
        value = node.child_by_field_name(field)
        if value and value.start_byte > after and value.child_by_field_name("body"):
            node = value
            break
    body = node.child_by_field_name("body")
    for child in node.named_children:
        is_body = child == body or "comment" in child.type
        if body is None and child.type.endswith(_BODIES):
            is_body = True
        if is_body and child.start_byte > after:
            return child.start_byte
    return node.end_byte


# The program


def serve(requests: IO[bytes], answers: IO[bytes], patience: float) -> None:
    """Answer until nothing more is asked: what is captured as one line of JSON, or null."""
    import select
    import signal

    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    # The other side waits for the answer, so nothing is in the buffer between two requests.
    while select.select([requests], [], [], patience)[0]:
        request = requests.readline()
        if not request:
            break
        language, size = request.decode().split()
        source = requests.read(int(size))
        answer = "null"
        with contextlib.suppress(ImportError):
            _loaded(language)
            # No handler: the signal ends the process, wherever it is. Nothing in Python could.
            seconds = _SECONDS + _SECONDS_PER_BYTE * len(source)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            answer = json.dumps(captures(source, language), separators=(",", ":"))
            signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(answer.encode() + b"\n")
        answers.flush()


def _bound_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Not every system can, and some allow less already.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    sys.path.extend(sys.argv[2:])
    _bound_memory()
    serve(sys.stdin.buffer, sys.stdout.buffer, float(sys.argv[1]))
