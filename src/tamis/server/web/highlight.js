// Colours for code: comments, strings, numbers, words of the language. No grammar, and never wrong about what
// the text is: every character is written as it stands.

const WORDS = {
  python: "and as assert async await break class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield None True False self",
  javascript: "as async await break case catch class const continue default delete do else enum export extends finally for from function if implements import in instanceof interface let new null of private public readonly return static super switch this throw true false try type typeof undefined var void while yield",
  go: "break case chan const continue default defer else fallthrough for func go goto if import interface map nil package range return select struct switch true false type var",
  rust: "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true false type unsafe use where while",
  c: "auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern false float final for friend goto if inline int interface long namespace new noexcept null nullptr operator override package private protected public return short signed sizeof static struct super switch template this throw throws true try typedef typename union unsigned using var virtual void volatile while fun val when object internal sealed record string foreach in is as import extends implements abstract",
  bash: "case do done elif else esac export fi for function if in local return set shift then unset until while",
  ruby: "alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield",
  sql: "alter and as asc between by case create delete desc distinct drop else end exists from group having in index inner insert into is join left like limit not null on or order outer primary references select set table then union unique update values when where",
};
const FAMILY = {
  typescript: "javascript", vue: "javascript", php: "javascript", json: "javascript", toml: "python", yaml: "python",
  cpp: "c", java: "c", csharp: "c", kotlin: "c", scala: "c", swift: "rust", zig: "rust", css: "c", lua: "ruby",
  elixir: "ruby", perl: "bash", r: "python", ini: "bash",
};
const HASH = new Set(["python", "bash", "ruby", "toml", "yaml", "r", "perl", "elixir", "ini", "php"]);
const STRING = `"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.)*'?|\`(?:[^\`\\\\]|\\\\[^])*\`?`;
const LONGEST = 200_000; // characters: beyond this it is plain, at once

export function coloured(text, language) {
  if (!language || text.length > LONGEST || language === "csv" || language === "html" || language === "xml") return [text];
  const family = FAMILY[language] || language;
  const known = new Set((WORDS[family] || "").split(" "));
  const comment = comments(language);
  const token = new RegExp(`(${comment})|(${STRING})|(\\b\\d[\\w.]*)|([A-Za-z_$][\\w$]*)`, "g");
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(token)) {
    const kind = found[1] ? "comment" : found[2] ? "string" : found[3] ? "number" : known.has(found[4]) ? "keyword" : "";
    if (!kind || !found[0]) continue;
    parts.push(text.slice(last, found.index), piece(kind, found[0]));
    last = found.index + found[0].length;
  }
  return [...parts, text.slice(last)];
}

function comments(language) {
  if (language === "sql" || language === "lua" || language === "haskell") return "--[^\\n]*";
  return HASH.has(language) ? "#[^\\n]*" : "//[^\\n]*|/\\*[^]*?(?:\\*/|$)";
}

function piece(kind, text) {
  const span = document.createElement("span");
  span.className = `code-${kind}`;
  span.textContent = text;
  return span;
}
