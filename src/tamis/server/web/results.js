// The results of a search: what was found, chips of the filter, and a way to why.

import { get } from "./api.js";
import { day, el, plural, say, show } from "./dom.js";
import { passage } from "./passage.js";
import { address, scope, searching, withChange } from "./state.js";
import { terms, without, words } from "./terms.js";
import { because, funnel, whyNot } from "./why.js";

const DOCUMENTS = 5; // documents listed where one passage would be
const LANES = ["meaning", "words", "code", "links"];
let asked = 0;
let underway = null;

// Words first, since they are there in milliseconds; then all lanes. An answer to an older question is dropped.
export async function results(main, state, go, editor, quietly = false) {
  const number = ++asked;
  underway?.abort();
  underway = new AbortController();
  const signal = underway.signal;
  if (!state.q.trim()) return welcome(main, go);
  const isOurs = () => number === asked;
  if (!words(state.q)) {
    const listed = await get("/documents", { filter: state.q, limit: DOCUMENTS * state.n, ...scope(state) }, signal);
    if (isOurs()) list(main, state, listed, go);
    return;
  }
  const question = { q: state.q, limit: state.n, marks: "true", ...scope(state) };
  if (!quietly) {
    const quick = await get("/search", { ...question, quick: "true" }, signal);
    if (isOurs()) render(main, state, quick, go, editor, true);
  }
  const found = await get("/search", { ...question, explain: "true" }, signal);
  if (isOurs()) render(main, state, found, go, editor, false);
}

export function forget() {
  asked++;
  underway?.abort();
}

function render(main, state, found, go, editor, isQuick) {
  const many = plural(found.results.length, "result");
  draw(
    main,
    chips(state, go),
    el("div", { class: "bar" },
      el("h1", { class: "count" }, found.results.length ? many : "Nothing found"),
      el("span", { class: "quiet" }, isQuick ? "by words, meaning follows" : `${Math.round(found.timings_ms.total ?? 0)} ms`),
      isQuick ? null : el("button", { type: "button", class: "plain", "aria-expanded": String(Boolean(state.why)), id: "why",
        onclick: () => go(withChange({ why: state.why ? "" : "1" })) }, "Why these?"),
      archivedBox(state, go)),
    state.why && !isQuick ? why(state, found) : null,
    found.hints.map((hint) => el("p", { class: "note" }, hint)),
    found.freshness.complete ? null : el("p", { class: "note" }, found.freshness.note),
    el("ol", { class: "cards", "aria-label": "Results", "data-quick": String(isQuick) },
      found.results.map((result) => card(result, state, editor))),
    more(found, state, go, "More results"),
  );
  if (!isQuick) say(found.results.length ? many : "Nothing found");
}

// A filter without words: the documents that it lets through.
function list(main, state, found, go) {
  const many = found.total ? plural(found.total, "document") : "Nothing found";
  draw(
    main,
    chips(state, go),
    el("div", { class: "bar" },
      el("h1", { class: "count" }, many),
      el("span", { class: "quiet" }, found.total ? "by path; words search in them" : "the filter lets no document through"),
      archivedBox(state, go)),
    found.freshness.complete ? null : el("p", { class: "note" }, found.freshness.note),
    el("ol", { class: "cards", "aria-label": "Documents", "data-quick": "false" }, found.documents.map((each) => el("li", {},
      el("article", { class: "card", "data-path": each.path },
        el("h2", {}, title(each, address({ ...state, doc: each.path, root: each.root || "", lines: "", view: "", why: "" }))),
        el("div", { class: "foot" }, about(each)))))),
    more(found, state, go, "More documents"),
  );
  say(many);
}

function draw(main, ...children) {
  const focused = document.activeElement?.closest?.(".card")?.querySelector("a.title").getAttribute("href");
  show(main, ...children);
  if (focused) main.querySelector(`.card a.title[href="${CSS.escape(focused)}"]`)?.focus();
}

function more(found, state, go, name) {
  if (!found.next_cursor || Number(state.n) >= 100) return null;
  return el("button", { type: "button", class: "more button", onclick: () => go(withChange({ n: String(Number(state.n) + 10) })) }, name);
}

function title(result, target) {
  const name = result.path.split("/").at(-1);
  return el("a", { class: "title", href: target, "data-route": true },
    result.root ? el("span", { class: "quiet" }, `${result.root}: `) : null,
    el("span", { class: "folder" }, result.path.slice(0, -name.length)), name,
    result.start_line ? el("span", { class: "lines" }, `:${result.start_line}`) : null);
}

function about(result) {
  return [
    result.is_archived ? el("span", { class: "tag warn" }, "archived") : null,
    result.tags.slice(0, 6).map((tag) => el("span", { class: "tag" }, tag)),
    el("time", { datetime: result.modified }, day(result.modified)),
  ];
}

function card(result, state, editor) {
  const target = address({ ...state, doc: result.path, root: result.root || "", lines: `${result.start_line}-${result.end_line}`, view: "", why: "" });
  const body = el("div", {});
  const fill = (whole) => {
    const { element, more } = passage(result, whole);
    show(body, element, more || whole
      ? el("button", { type: "button", class: "plain small", "aria-expanded": String(whole), onclick: () => fill(!whole) }, whole ? "Less" : "Show all of it")
      : null);
  };
  fill(false);
  return el("li", {},
    el("article", { class: "card", "data-chunk": result.chunk_id, "data-path": result.path },
      el("h2", {}, title(result, target), score(result)),
      result.header_path ? el("p", { class: "trail" }, result.header_path.split(" > ").flatMap((part, at) => [at ? el("span", { "aria-hidden": "true" }, " › ") : null, part])) : null,
      body,
      el("div", { class: "foot" },
        about(result),
        result.also_in?.length ? el("span", { title: places(result) }, `also in ${plural(result.also_in_count, "place")}`) : null,
        editor ? el("a", { href: editor.replace("{path}", encodeURI(result.file_path).replace(/[?#]/g, encodeURIComponent)).replace("{line}", result.start_line) }, "Open in editor") : null,
        el("details", { class: "because" }, el("summary", {}, "Why"), because(result)))));
}

// Where else its text stands: an answer lists some of the places, and counts them all.
function places(result) {
  const listed = result.also_in.map((place) => `${place.path}:${place.start_line}`);
  return [...listed, ...(result.also_in_count > listed.length ? ["…"] : [])].join("\n");
}

// How sure, as long as the bar is; who found it, in its colours.
function score(result) {
  const shares = result.evidence.map((each) => ({ lane: each.lane, share: (each.confidence || 0.01) / (60 + each.rank) }));
  const total = shares.reduce((sum, each) => sum + each.share, 0) || 1;
  const percent = Math.round(result.score * 100);
  const bar = el("span", { class: "score", role: "img", "aria-label": `score ${percent} of 100, found by ${shares.map((s) => s.lane).join(", ")}`, title: shares.map((s) => s.lane).join(", ") });
  for (const lane of LANES) {
    const share = shares.filter((each) => each.lane === lane).reduce((sum, each) => sum + each.share, 0);
    if (share) bar.append(piece(lane, (56 * result.score * share) / total));
  }
  return el("span", { class: "scored" }, bar, el("span", { class: "number", "aria-hidden": "true" }, percent));
}

function piece(lane, width) {
  const span = el("span", { class: `lane-${lane}` });
  span.style.width = `${Math.max(2, width).toFixed(1)}px`;
  return span;
}

function chips(state, go) {
  const found = terms(state.q);
  if (!found.length && !state.in) return null;
  return el("ul", { class: "chips", "aria-label": "Filter" },
    state.in ? chip(`root: ${state.in}`, [`root: ${state.in} `], () => go(searching({ in: "" }))) : null,
    found.map((term) => chip(term.text, [term.negated ? el("b", {}, "not ") : null, `${term.key}: ${term.value} `], () => go(searching({ q: without(state.q, term) })))));
}

function chip(name, shown, remove) {
  return el("li", {}, el("button", { type: "button", class: "chip", "aria-label": `Remove ${name}`, onclick: remove }, shown, el("span", { "aria-hidden": "true" }, "×")));
}

function archivedBox(state, go) {
  const box = el("input", { type: "checkbox", id: "archived", checked: Boolean(state.archived), onchange: () => go(searching({ archived: state.archived ? "" : "1" })) });
  return el("label", { class: "archived", for: "archived" }, box, " archived too");
}

function why(state, found) {
  const answer = el("p", { class: "answer", role: "status" });
  const ask = async (file) => {
    show(answer);
    if (!file) return;
    try {
      const told = await get("/search", { q: state.q, limit: state.n, why_not: file, ...scope(state) });
      show(answer, ...whyNot(told.why_not));
    } catch (problem) {
      show(answer, `${problem.message} ${problem.hint || ""}`);
    }
  };
  return el("section", { class: "why panel", "aria-label": "Why these results" },
    funnel(found),
    el("form", { class: "why-not", onsubmit: (event) => { event.preventDefault(); ask(event.target.elements.file.value.trim()); } },
      el("label", { for: "file" }, "Why not this file?"),
      el("input", { id: "file", name: "file", type: "text", placeholder: "docs/api.md", autocomplete: "off" }),
      el("button", { class: "button", type: "submit" }, "Ask"), answer));
}

function welcome(main, go) {
  const tip = (text, doc) => el("li", {}, el("button", { type: "button", class: "plain mono", onclick: () => go(searching({ q: text }), true) }, text), el("span", { class: "quiet" }, doc));
  show(main,
    el("section", { class: "welcome" },
      el("h1", {}, "Ask for a passage"),
      el("p", {}, "Words, a question, or the name of a function. Filters are part of the question, or a click away in the list beside it: what a filter keeps out has no say in the ranking either."),
      el("ul", { class: "tips" },
        tip("type:definitions retry", "definitions in code"),
        tip("under:docs refund", "below a folder"),
        tip("-tag:draft after:2026-01 plan", "without a tag, since January"),
        tip("path:*.md link", "by a pattern, as in .gitignore")),
      el("p", { class: "quiet" }, el("kbd", {}, "/"), " to the box, ", el("kbd", {}, "↓"), " ", el("kbd", {}, "↑"), " through the results, ", el("kbd", {}, "Enter"), " to open, ", el("kbd", {}, "Esc"), " back")));
}
