"""Source in every language that has a grammar, and the names it defines."""

from tamis.ingest.code.symbols import Symbol, reading
from tamis.text.languages import CODE_LANGUAGE

EXTENSION = {
    language: suffix for suffix, language in reversed(CODE_LANGUAGE.items())
} | {"tsx": ".tsx"}


# Language, source, and what it defines: where, of what kind, in which line, with which signature.
TABLE = [
    (
        "python",
        """
import os

# Retries.
@final
class Client(Base):
    '''Doc.'''

    @property
    def retry(self, a: int,
              b=3) -> int:  # why
        def inner(): pass
        return 1

async def go(x): ...
""",
        [
            ("Client", "class", 6, "class Client(Base)"),
            ("Client > retry", "method", 10, "def retry(self, a: int, b=3) -> int"),
            ("Client > retry > inner", "function", 12, "def inner()"),
            ("go", "function", 15, "async def go(x)"),
        ],
    ),
    (
        "javascript",
        """
/** Doc. */
export default class Client extends Base {
  #secret() {}
  static make = () => new Client();
  get ["x"]() { return 1; }
}
function* gen(a) {}
export const arrow = async (a, b) => {
  return a;
};
Client.prototype.retry = function (n) {};
module.exports.helper = function helper() {};
const api = { list() {}, drop: function (x) {} };
""",
        [
            ("Client", "class", 3, "export default class Client extends Base"),
            ("Client > #secret", "method", 4, "#secret()"),
            ("Client > make", "method", 5, "static make = ()"),
            ("Client > x", "method", 6, 'get ["x"]()'),
            ("gen", "function", 8, "function* gen(a)"),
            ("arrow", "function", 9, "export const arrow = async (a, b)"),
            ("Client > retry", "method", 12, "Client.prototype.retry = function (n)"),
            ("helper", "function", 13, "module.exports.helper = function helper()"),
            ("list", "method", 14, "list()"),
            ("drop", "method", 14, "drop: function (x)"),
        ],
    ),
    (
        "typescript",
        """
@Injectable()
export abstract class Client<T> implements Base {
  constructor(private a: string) {}
  abstract go(): void;
}
interface Shape { area(scale: number): number; }
type Id = string | number;
enum Color { Red }
namespace Util.Text { export function trim(s: string): string { return s; } }
declare function outside(a: number): void;
""",
        [
            ("Client", "class", 3, "export abstract class Client<T> implements Base"),
            ("Client > constructor", "method", 4, "constructor(private a: string)"),
            ("Client > go", "method", 5, "abstract go(): void"),
            ("Shape", "interface", 7, "interface Shape"),
            ("Shape > area", "method", 7, "area(scale: number): number"),
            ("Id", "type", 8, "type Id = string | number"),
            ("Color", "enum", 9, "enum Color"),
            ("Util > Text", "namespace", 10, "namespace Util.Text"),
            (
                "Util > Text > trim",
                "function",
                10,
                "export function trim(s: string): string",
            ),
            ("outside", "function", 11, "declare function outside(a: number): void"),
        ],
    ),
    (
        "tsx",
        """
export function Button({ label }: Props) {
  return <button>{label}</button>;
}
const Row = () => <div />;
""",
        [
            ("Button", "function", 2, "export function Button({ label }: Props)"),
            ("Row", "function", 5, "const Row = ()"),
        ],
    ),
    (
        "go",
        """
// Client retries.
type Client struct{ n int }

type Doer interface {
	Do(x int) error
}

func (c *Client[T]) Retry(n int) error { return nil }

func New() *Client { return nil }
""",
        [
            ("Client", "struct", 3, "type Client struct"),
            ("Doer", "interface", 5, "type Doer interface"),
            ("Doer > Do", "method", 6, "Do(x int) error"),
            ("Client > Retry", "method", 9, "func (c *Client[T]) Retry(n int) error"),
            ("New", "function", 11, "func New() *Client"),
        ],
    ),
    (
        "rust",
        """
/// Doc.
#[derive(Debug)]
pub struct Client<T> { n: T }

impl<T> Doer for Client<T> {
    fn retry(&self) -> i32 { 1 }
}
trait Doer { type Out; fn retry(&self) -> i32; }
enum Color { Red }
mod inner { pub fn deep() {} }
macro_rules! shout { () => {} }
""",
        [
            ("Client", "struct", 4, "pub struct Client<T>"),
            ("Client", "impl", 6, "impl<T> Doer for Client<T>"),
            ("Client > retry", "method", 7, "fn retry(&self) -> i32"),
            ("Doer", "trait", 9, "trait Doer"),
            ("Doer > Out", "type", 9, "type Out"),
            ("Doer > retry", "method", 9, "fn retry(&self) -> i32"),
            ("Color", "enum", 10, "enum Color"),
            ("inner", "module", 11, "mod inner"),
            ("inner > deep", "function", 11, "pub fn deep()"),
            ("shout", "macro", 12, "macro_rules! shout"),
        ],
    ),
    (
        "java",
        """
/** Doc. */
@Deprecated
public class Client<T> extends Base {
    public Client(int n) {}
    @Override
    public int retry(int n) throws X { return 1; }
    interface Doer { void go(); }
    enum Color { RED }
    record Point(int x) {}
}
""",
        [
            ("Client", "class", 4, "@Deprecated public class Client<T> extends Base"),
            ("Client > Client", "method", 5, "public Client(int n)"),
            (
                "Client > retry",
                "method",
                7,
                "@Override public int retry(int n) throws X",
            ),
            ("Client > Doer", "interface", 8, "interface Doer"),
            ("Client > Doer > go", "method", 8, "void go()"),
            ("Client > Color", "enum", 9, "enum Color"),
            ("Client > Point", "record", 10, "record Point(int x)"),
        ],
    ),
    (
        "c",
        """
/* Doc. */
static int *find(struct node *n, int key) {
    return 0;
}
struct node { int key; };
typedef struct { int x; } point_t;
enum color { RED };
int outside(int a);
#define TWICE(x) ((x) * 2)
""",
        [
            ("find", "function", 3, "static int *find(struct node *n, int key)"),
            ("node", "struct", 6, "struct node"),
            ("point_t", "type", 7, "typedef struct point_t"),
            ("color", "enum", 8, "enum color"),
            ("outside", "prototype", 9, "int outside(int a)"),
            ("TWICE", "macro", 10, "#define TWICE(x) ((x) * 2)"),
        ],
    ),
    (
        "cpp",
        """
namespace a::b {
// Doc.
template <typename T>
class Client : Base {
  Client(int n) : n_(n) {}
  virtual int go() = 0;
  bool operator==(const Client& o) const { return true; }
};
template <typename T>
int Client<T>::retry(int n) { return n; }
using Id = int;
}
""",
        [
            ("a > b", "namespace", 2, "namespace a::b"),
            ("a > b > Client", "class", 5, "class Client : Base"),
            ("a > b > Client > Client", "method", 6, "Client(int n) : n_(n)"),
            ("a > b > Client > go", "prototype", 7, "virtual int go() = 0"),
            (
                "a > b > Client > operator==",
                "method",
                8,
                "bool operator==(const Client& o) const",
            ),
            ("a > b > Client > retry", "method", 11, "int Client<T>::retry(int n)"),
            ("a > b > Id", "type", 12, "using Id = int"),
        ],
    ),
    (
        "csharp",
        """
namespace A.B {
    /// <summary>Doc.</summary>
    [Serializable]
    public class Client<T> : Base {
        public Client(int n) { }
        public int Count { get; set; }
        public int Retry(int n) => n;
        public static Client operator +(Client a, Client b) { return a; }
    }
    interface IDoer { void Go(); }
    enum Color { Red }
    record Point(int X);
}
""",
        [
            ("A > B", "namespace", 2, "namespace A.B"),
            (
                "A > B > Client",
                "class",
                5,
                "[Serializable] public class Client<T> : Base",
            ),
            ("A > B > Client > Client", "method", 6, "public Client(int n)"),
            ("A > B > Client > Count", "property", 7, "public int Count"),
            ("A > B > Client > Retry", "method", 8, "public int Retry(int n)"),
            (
                "A > B > Client > +",
                "method",
                9,
                "public static Client operator +(Client a, Client b)",
            ),
            ("A > B > IDoer", "interface", 11, "interface IDoer"),
            ("A > B > IDoer > Go", "method", 11, "void Go()"),
            ("A > B > Color", "enum", 12, "enum Color"),
            ("A > B > Point", "record", 13, "record Point(int X)"),
        ],
    ),
    (
        "ruby",
        """
module A::B
  # Doc.
  class Client < Base
    def retry(n)
      n
    end

    def self.make; end

    def ==(other) = true
  end
end
""",
        [
            ("A > B", "module", 2, "module A::B"),
            ("A > B > Client", "class", 4, "class Client < Base"),
            ("A > B > Client > retry", "method", 5, "def retry(n)"),
            ("A > B > Client > make", "method", 9, "def self.make; end"),
            ("A > B > Client > ==", "method", 11, "def ==(other)"),
        ],
    ),
    (
        "php",
        """<?php
namespace A;
/** Doc. */
final class Client extends Base {
    public function retry(int $n): int { return $n; }
}
interface Doer { function go(); }
trait Loud {}
enum Color { case Red; }
function helper() {}
""",
        [
            ("Client", "class", 4, "final class Client extends Base"),
            ("Client > retry", "method", 5, "public function retry(int $n): int"),
            ("Doer", "interface", 7, "interface Doer"),
            ("Doer > go", "method", 7, "function go()"),
            ("Loud", "trait", 8, "trait Loud"),
            ("Color", "enum", 9, "enum Color"),
            ("helper", "function", 10, "function helper()"),
        ],
    ),
    (
        "bash",
        """
# Doc.
retry() {
    echo "$1"
}
function ns::go { :; }
""",
        [
            ("retry", "function", 3, "retry()"),
            ("ns::go", "function", 6, "function ns::go"),
        ],
    ),
    (
        "kotlin",
        """
/** Doc. */
class Client(val n: Int) : Base() {
    fun retry(n: Int): Int {
        return n
    }

    companion object {
        fun make() = Client(1)
    }
}

interface Doer {
    fun go()
}

object Single {}

fun <T> List<T>.second(): T = this[1]
""",
        [
            ("Client", "class", 3, "class Client(val n: Int) : Base()"),
            ("Client > retry", "method", 4, "fun retry(n: Int): Int"),
            ("Client > Companion", "object", 8, "companion object"),
            ("Client > Companion > make", "method", 9, "fun make()"),
            ("Doer", "interface", 13, "interface Doer"),
            ("Doer > go", "method", 14, "fun go()"),
            ("Single", "object", 17, "object Single"),
            ("second", "function", 19, "fun <T> List<T>.second(): T"),
        ],
    ),
    (
        "scala",
        """
/** Doc. */
class Client(n: Int) extends Base {
  def retry(n: Int): Int = n
}
object Client { def make = new Client(1) }
trait Doer { def go(): Unit }
""",
        [
            ("Client", "class", 3, "class Client(n: Int) extends Base"),
            ("Client > retry", "method", 4, "def retry(n: Int): Int"),
            ("Client", "object", 6, "object Client"),
            ("Client > make", "method", 6, "def make"),
            ("Doer", "trait", 7, "trait Doer"),
            ("Doer > go", "method", 7, "def go(): Unit"),
        ],
    ),
    (
        "lua",
        """
-- Doc.
local function helper(a) end
function Client.make(n) end
function Client:retry(n) end
Client.go = function() end
""",
        [
            ("helper", "function", 3, "local function helper(a) end"),
            ("Client > make", "method", 4, "function Client.make(n) end"),
            ("Client > retry", "method", 5, "function Client:retry(n) end"),
            ("Client > go", "method", 6, "Client.go = function() end"),
        ],
    ),
    (
        "swift",
        """
/// Doc.
class Client: Base {
    init(n: Int) {}
    func retry<T>(_ n: T) -> Int { 1 }
}
struct Point {}
enum Color { case red }
protocol Doer { func go() }
extension Client { func more() {} }
""",
        [
            ("Client", "class", 3, "class Client: Base"),
            ("Client > init", "method", 4, "init(n: Int)"),
            ("Client > retry", "method", 5, "func retry<T>(_ n: T) -> Int"),
            ("Point", "struct", 7, "struct Point"),
            ("Color", "enum", 8, "enum Color"),
            ("Doer", "interface", 9, "protocol Doer"),
            ("Doer > go", "method", 9, "func go()"),
            ("Client", "extension", 10, "extension Client"),
            ("Client > more", "method", 10, "func more()"),
        ],
    ),
]


SOURCES = {language: source for language, source, _ in TABLE}


def symbols(text: str, language: str) -> list[Symbol] | None:
    """Return what a text defines, without constants; None if it does not parse."""
    found = reading(text, language)
    return found.definitions if found else None
