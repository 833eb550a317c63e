// Facets: what the documents have that the filter lets through, with counts. A click is a term of the query.

import { get } from "./api.js";
import { el, plural, show } from "./dom.js";
import { scope, searching } from "./state.js";
import { has, toggled } from "./terms.js";

const NAMES = {
  folders: ["Folders", "under"], types: ["Kinds", "type"], languages: ["Languages", "lang"], tags: ["Tags", "tag"],
  workspaces: ["Workspaces", "workspace"], years: ["Years", ""], authors: ["Authors", "author"], categories: ["Categories", "category"],
};
const FEW = 8;
const opened = new Set();
let asked = 0;
let roots = [];

// Whether there are several now, and others than before: then there is something to choose.
export function served(names) {
  const before = roots.join("\n");
  roots = names;
  return names.length > 1 && names.join("\n") !== before;
}

export async function facets(side, state, go) {
  const number = ++asked;
  const found = await get("/facets", { q: state.q, ...scope(state) });
  if (number !== asked) return;
  const wide = matchMedia("(min-width: 860px)").matches;
  const before = side.querySelector("details.all");
  show(side, el("details", { class: "all", open: before ? before.open : wide },
    el("summary", {}, "Filters ", el("span", { class: "quiet" }, plural(found.documents, "document"))),
    rootsGroup(state, go),
    Object.entries(NAMES).map(([name, [title, key]]) => group(title, key, found.facets[name] || [], state, go))));
}

function rootsGroup(state, go) {
  if (roots.length < 2) return null;
  return el("section", { class: "facet" }, el("h2", {}, "Roots"),
    el("ul", {}, roots.map((name) => el("li", {},
      el("button", { type: "button", "data-facet": "Roots", "data-value": name, "aria-pressed": String(state.in === name), onclick: () => go(searching({ in: state.in === name ? "" : name })) },
        el("span", { class: "value" }, name))))));
}

function group(title, key, values, state, go) {
  if (!values.length) return null;
  const chosen = values.filter((each) => isChosen(state.q, key, each.value));
  if (values.length === 1 && !chosen.length && key !== "tag" && key !== "workspace") return null;
  const many = opened.has(title) ? values : values.slice(0, FEW);
  const more = values.length > FEW
    ? el("button", { type: "button", class: "plain small", onclick: () => { opened.has(title) ? opened.delete(title) : opened.add(title); go(searching({}), true, true); } }, opened.has(title) ? "Fewer" : `${values.length - FEW} more`)
    : null;
  return el("section", { class: "facet" }, el("h2", {}, title),
    el("ul", {}, many.map((each) => el("li", {},
      el("button", { type: "button", "data-facet": title, "data-value": each.value, "aria-pressed": String(isChosen(state.q, key, each.value)), onclick: () => go(searching({ q: clicked(state.q, key, each.value) })) },
        el("span", { class: "value" }, each.value), el("span", { class: "quiet" }, each.documents.toLocaleString("en")))))), more);
}

// A year is two terms.
function isChosen(query, key, value) {
  return key ? has(query, key, value) : has(query, "after", value) && has(query, "before", value);
}

function clicked(query, key, value) {
  return key ? toggled(query, key, value) : toggled(toggled(query, "after", value), "before", value);
}
