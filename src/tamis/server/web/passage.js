// A passage as a result shows it: some lines round what was asked for, the words marked, the best sentence too.
// Markdown is shown by its text: lines of a paragraph run on, and the signs for bold, code and links are left out.

import { el } from "./dom.js";

const LINES = 7;
const RULE = /^\s*\|?[\s:|-]*-[\s:|-]*\|[\s:|-]*$/; // below the head of a table
// Code with its ticks, ticks whose others are on another line, bold, links in both ways of writing them.
const SIGNS = /(?<!`)(`+)(?!`)[^]*?[^`]\1(?!`)|`+|\*\*|!?\[\[(?:[^\]|\n]*\|)?(?=[^\]\n]+\]\])|(?<=\[\[[^\]\n]+)\]\]|!?\[(?=[^\]\n]*\]\()|\]\((?:[^()\n]|\([^()\n]*\))*\)/g;
const UNDERLINED = /(?<![\w/])(__?)(?=[^_\s])[^_`\n]*[^_`\s]\1(?!\w)/g;

export function passage(result, whole) {
  const characters = [...result.content];
  const isCode = result.chunk_type !== "documentation";
  const lines = cut(characters, isCode);
  const from = whole ? 0 : first(lines, result);
  const to = whole ? lines.length : Math.min(lines.length, from + LINES);
  const shown = blocks(lines.slice(from, to)).map((block) => draw(block, characters, result, isCode));
  return { element: el("div", { class: isCode ? "passage is-code" : "passage" }, shown), more: lines.length > to || from > 0 };
}

// The lines with something on them: what kind each is, and whether it goes on with the one before.
function cut(characters, isCode) {
  const lines = [];
  let [start, fenced, apart] = [0, false, true];
  for (let at = 0; at <= characters.length; at++) {
    if (at < characters.length && characters[at] !== "\n") continue;
    const text = characters.slice(start, at).join("");
    const fence = !isCode && /^\s*(```|~~~)/.test(text);
    if (fence) fenced = !fenced;
    else if (text.trim() && !(RULE.test(text) && !isCode && !fenced)) lines.push(line(text, start, at, isCode || fenced, apart));
    apart = fence || !text.trim();
    start = at + 1;
  }
  return lines;
}

function line(text, start, end, isMono, apart) {
  if (isMono) return { start, end, kind: "mono", apart: true };
  const head = /^#{1,6} +/.exec(text);
  const item = /^\s*([-*+]|\d+\.) +/.exec(text);
  const row = /^\s*\|\s*/.exec(text);
  const kind = head ? "head" : item ? "item" : row ? "row" : "";
  const skip = [...((head || item || row || /^\s*/.exec(text))[0])].length;
  return { start: start + skip, end, kind, apart: apart || kind !== "" };
}

// The line to begin with: the heading is in the trail above, and what was asked for should be in sight.
function first(lines, result) {
  const marks = result.marks || { words: [], sentence: null };
  const heading = lines[0]?.kind === "head" && lines.length > 1 ? 1 : 0;
  const place = marks.sentence?.[0] ?? marks.words[0]?.[0] ?? 0;
  const at = lines.findIndex((each) => each.end >= place);
  if (at <= LINES - 3) return heading;
  let begin = at;
  while (begin > at - 3 && begin > heading && !lines[begin].apart) begin--; // with the beginning of its paragraph
  return begin;
}

function blocks(lines) {
  const found = [];
  for (const each of lines) {
    const before = found.at(-1);
    if (!before || each.apart || ["head", "mono"].includes(before.kind)) found.push({ kind: each.kind, lines: [each] });
    else before.lines.push(each);
  }
  return found;
}

function draw(block, characters, result, isCode) {
  const text = block.lines.flatMap((each, at) => [at ? " " : null, marked(each, characters, result, isCode || block.kind === "mono")]);
  return el("p", { class: `line ${block.kind}`.trim() }, text);
}

function marked(line, characters, result, isPlain) {
  const { words, sentence } = result.marks || { words: [], sentence: null };
  const { hidden, codes } = isPlain ? { hidden: [], codes: [] } : signs(line, characters);
  const spans = [...words, ...hidden, ...codes, ...(sentence ? [sentence] : [])];
  const edges = new Set([line.start, line.end]);
  for (const edge of spans.flat()) if (edge > line.start && edge < line.end) edges.add(edge);
  const places = [...edges].sort((a, b) => a - b);
  return places.slice(0, -1).map((start, at) => {
    const inside = ([from, to]) => from <= start && start < to;
    if (hidden.some(inside)) return null;
    const text = characters.slice(start, places[at + 1]).join("");
    const best = sentence && inside(sentence);
    const shown = codes.some(inside) ? el("code", {}, text) : text;
    if (words.some(inside)) return el("mark", { class: best ? "best" : null }, shown);
    return best ? el("span", { class: "best" }, shown) : shown;
  });
}

function signs(line, characters) {
  const text = characters.slice(line.start, line.end).join("");
  const span = (from, to) => [from, to].map((index) => line.start + [...text.slice(0, index)].length);
  const ends = ({ index, 0: whole, 1: sign }) => [span(index, index + sign.length), span(index + whole.length - sign.length, index + whole.length)];
  const found = [...text.matchAll(SIGNS)];
  const isFree = ({ index }) => !found.some((sign) => sign.index <= index && index < sign.index + sign[0].length);
  const underlined = [...text.matchAll(UNDERLINED)].filter(isFree);
  const hidden = [...found, ...underlined].flatMap((sign) => (sign[1] ? ends(sign) : [span(sign.index, sign.index + sign[0].length)]));
  const codes = found.filter((sign) => sign[1]).map((sign) => span(sign.index, sign.index + sign[0].length));
  return { hidden, codes };
}
