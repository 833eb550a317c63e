// The filter in a query: `retry policy -tag:draft under:docs` has two terms. The text is the filter, and the
// chips below the box and the facets beside the results are another view of it.

const KEYS = "path|file|under|workspace|tag|type|lang|author|category|after|before|doc";
const TERM = new RegExp(`^(-?)(?:(${KEYS}):(?=[^\\s:])|(is):(?=archived$))`);
const QUOTED = '"(?:[^"\\\\]|\\\\[^])*"';
const PIECE = new RegExp(`(?:[^\\s"\\[]|${QUOTED}|\\[[^\\]]*\\]|["\\[])+`, "g");
const BARE = /^[^\s"()[\]\\|:-][^\s"()[\]\\|]*$/;
const ALONE = new Set(["type", "lang", "under", "workspace", "author", "category", "after", "before"]);

export function terms(text) {
  return [...text.matchAll(PIECE)].flatMap((piece) => {
    const found = TERM.exec(piece[0]);
    if (!found) return [];
    const key = found[2] || found[3];
    const value = unquoted(piece[0].slice(found[0].length));
    return [{ text: piece[0], start: piece.index, key, value, negated: found[1] === "-" }];
  });
}

export function words(text) {
  return terms(text).reduceRight((left, term) => without(left, term), text).trim();
}

export function has(text, key, value) {
  return terms(text).some((term) => term.key === key && term.value === value && !term.negated);
}

// The text with a term, or without it if it has it. Of keys that a document has one of, the last one counts.
export function toggled(text, key, value) {
  const given = terms(text).filter((term) => term.key === key && !term.negated);
  const same = given.filter((term) => term.value === value);
  const gone = same.length ? same : ALONE.has(key) ? given : [];
  const left = gone.reduceRight((rest, term) => without(rest, term), text);
  return same.length ? left : `${left.trimEnd()} ${key}:${quoted(value)}`.trimStart();
}

export function without(text, term) {
  const before = text.slice(0, term.start).trimEnd();
  const after = text.slice(term.start + term.text.length).trimStart();
  return before && after ? `${before} ${after}` : before || after;
}

function quoted(value) {
  return BARE.test(value) ? value : `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

function unquoted(value) {
  return value.startsWith('"') ? value.slice(1, -1).replace(/\\([^])/g, "$1") : value;
}
