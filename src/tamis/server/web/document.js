// A document: Markdown as the server made it safe, or text with its lines; the passage marked and in sight.

import { encoded, get } from "./api.js";
import { day, el, plural, say, show } from "./dom.js";
import { graph } from "./graph.js";
import { coloured } from "./highlight.js";
import { address, filters, withChange } from "./state.js";
import { toggled } from "./terms.js";

const BLOCK = 100; // lines that are drawn together, when they come into sight

export async function documentView(main, state, go, editor) {
  const found = await get(`/documents/${encoded(state.doc)}`, { html: "true", root: state.root, ...filters(state) });
  const [first, last] = state.lines.split("-").map(Number);
  const range = first ? { first, last: last || first } : null;
  const body = found.html === undefined ? plain(found, range) : rendered(found, range);
  const back = address({ ...state, doc: "", root: "", lines: "", view: "" });
  show(main,
    el("nav", { class: "crumbs", "aria-label": "Where you are" }, el("a", { href: back, "data-route": true, id: "back" }, state.q ? "← Results" : "← Search"), tabs(state)),
    el("div", { class: "reader" },
      el("article", { class: "paper" }, head(found, range, state, editor),
        state.view === "graph" ? await graph(found, state, go) : body),
      el("aside", { class: "about", "aria-label": "About this document" }, outline(found, state), linked("Links to", found.links, state), linked("Linked from", found.backlinks, state))));
  document.title = `${found.title} · tamis`;
  const mark = main.querySelector(".passage-mark");
  if (state.view !== "graph") (mark || main.querySelector("h1"))?.scrollIntoView({ block: mark ? "center" : "nearest" });
  say(`${found.title}, ${found.path}`);
}

function tabs(state) {
  const tab = (view, name) => el("a", { href: address({ ...state, view }), "data-route": true, "aria-current": state.view === view ? "page" : null }, name);
  return el("span", { class: "tabs" }, tab("", "Document"), tab("graph", "Links as a picture"));
}

function head(found, range, state, editor) {
  const place = editor && editor.replace("{path}", encodeURI(found.file_path).replace(/[?#]/g, encodeURIComponent)).replace("{line}", range?.first || 1);
  return el("header", {},
    el("p", { class: "path" }, state.root ? `${found.root}: ` : null, found.path),
    el("h1", { class: "doc-title" }, found.title),
    el("p", { class: "foot" },
      found.is_archived ? el("span", { class: "tag warn" }, "archived") : null,
      found.tags.map((tag) => el("a", { class: "tag", href: address({ q: `${toggled("", "tag", tag)} ` }), "data-route": true }, tag)),
      found.author ? el("span", {}, found.author) : null,
      el("time", { datetime: found.modified }, day(found.modified)),
      el("span", {}, plural(found.passages.length, "passage")),
      editor ? el("a", { href: place }, "Open in editor") : null),
    found.description ? el("p", { class: "lead" }, found.description) : null);
}

// The HTML is the server's, and safe; it is parsed apart, where nothing runs or loads, and then moved here.
function rendered(found, range) {
  const parsed = new DOMParser().parseFromString(found.html, "text/html");
  const body = el("div", { class: "prose" });
  body.append(...document.importNode(parsed.body, true).childNodes);
  const title = body.querySelector(":scope > h1");
  if (title && title.textContent.trim() === found.title) title.remove();
  for (const link of body.querySelectorAll('a[href^="/?doc="]')) link.dataset.route = "";
  for (const link of body.querySelectorAll('a:not([href])')) link.title = "not indexed";
  for (const link of body.querySelectorAll("a[href]")) {
    if (!link.textContent.trim() && !link.querySelector('img:not([alt=""])')) link.append(link.getAttribute("href"));
  }
  for (const code of body.querySelectorAll("pre > code")) {
    code.parentElement.tabIndex = 0;
    show(code, ...coloured(code.textContent, languageOf(code.className)));
  }
  body.querySelectorAll("table").forEach((table, at) => {
    const around = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `Table ${at + 1}` });
    table.replaceWith(around);
    around.append(table);
  });
  if (range) mark(body, range);
  return body;
}

function mark(body, range) {
  const blocks = [...body.querySelectorAll("[data-line]")];
  const start = blocks.map((block) => Number(block.dataset.line));
  blocks.forEach((block, at) => {
    const end = (start[at + 1] ?? Infinity) - 1;
    if (start[at] <= range.last && end >= range.first) block.classList.add("passage-mark");
  });
}

const OTHER = { py: "python", js: "javascript", ts: "typescript", sh: "bash", shell: "bash", rs: "rust", rb: "ruby", yml: "yaml", "c++": "cpp", cs: "csharp", jsx: "javascript", tsx: "typescript", kt: "kotlin", console: "bash", golang: "go" };

function languageOf(name) {
  const told = name.replace("language-", "").toLowerCase();
  return OTHER[told] || told;
}

function plain(found, range) {
  const lines = [[]];
  for (const part of coloured(found.text, found.language)) {
    const kind = typeof part === "string" ? "" : part.className;
    const texts = (typeof part === "string" ? part : part.textContent).split("\n");
    texts.forEach((text, at) => {
      if (at) lines.push([]);
      if (text) lines.at(-1).push(kind ? el("span", { class: kind }, text) : text);
    });
  }
  const rows = lines.map((parts, at) => {
    const number = found.start_line + at;
    const inside = range && number >= range.first && number <= range.last;
    return el("div", { class: inside ? "row passage-mark" : "row", "data-line": number }, el("span", { class: "at", "aria-hidden": "true" }, String(number)), el("span", { class: "text" }, parts));
  });
  const blocks = [];
  for (let at = 0; at < rows.length; at += BLOCK) blocks.push(el("div", { class: "block" }, rows.slice(at, at + BLOCK)));
  return el("div", { class: "source", tabindex: "0", role: "region", "aria-label": "Text" }, blocks);
}

function outline(found, state) {
  if (found.outline.length < 2) return null;
  const least = Math.min(...found.outline.map((each) => each.level));
  return el("nav", { class: "panel", "aria-label": "Outline" }, el("h2", {}, "Outline"), el("ul", { class: "outline" },
    found.outline.map((each) => el("li", { class: `level-${Math.min(4, each.level - least)}` },
      el("a", { href: address({ ...state, view: "", lines: `${each.line}-${each.line}` }), "data-route": true }, each.name)))));
}

function linked(title, links, state) {
  if (!links.length) return null;
  const paths = [...new Map(links.map((link) => [link.path, link])).values()];
  return el("section", { class: "panel" }, el("h2", {}, title), el("ul", { class: "links" }, paths.map((link) => el("li", {},
    el("a", { href: address(withChange({ doc: link.path, root: state.root, lines: "", view: state.view })), "data-route": true }, link.path),
    el("span", { class: "quiet" }, ` ${link.type}`)))));
}
