// The page: from its address to what is shown, and from what somebody does to its address.

import { Problem, listen, post } from "./api.js";
import { documentView } from "./document.js";
import { el, show } from "./dom.js";
import { facets, served } from "./facets.js";
import { forget, results } from "./results.js";
import { address, current, searching, withChange } from "./state.js";
import { doing, statusView } from "./status.js";

const PAUSE = 70; // milliseconds without a key before it is searched
const THEMES = { "": "Auto", light: "Light", dark: "Dark" };
const [main, side, box] = ["main", "facets", "q"].map((id) => document.getElementById(id));
const editor = document.querySelector('meta[name="editor"]').content;
let generation = null;
let timer = 0;
let shown = 0;

// --- Going somewhere ---------------------------------------------------------------------

function go(state, replace = false, keep = false) {
  const to = address(state);
  if (to !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"]({}, "", to);
  render({ focus: !keep && !replace });
}

async function render({ focus = false, quietly = false } = {}) {
  const state = current();
  const number = ++shown;
  if (document.activeElement !== box || !state.q.startsWith(box.value.trim())) box.value = state.q;
  document.title = state.q ? `${state.q} · tamis` : "tamis";
  document.body.dataset.view = state.doc ? "document" : state.view || "search";
  main.setAttribute("aria-busy", "true");
  try {
    if (state.doc || state.view === "status") forget();
    else facets(side, state, go).catch(() => show(side));
    if (state.doc) await documentView(main, state, go, editor);
    else if (state.view === "status") await statusView(main);
    else await results(main, state, go, editor, quietly);
    if (number === shown && focus && (state.doc || state.view)) main.focus({ preventScroll: true });
    return true;
  } catch (problem) {
    if (problem.name !== "AbortError" && number === shown) failed(problem);
    return problem.status !== 401;
  } finally {
    if (number === shown) main.removeAttribute("aria-busy");
  }
}

function failed(problem) {
  if (problem instanceof Problem && problem.status === 401) return signIn();
  if (!(problem instanceof Problem)) throw problem;
  return show(main, el("section", { class: "problem", role: "alert" }, el("h1", {}, problem.message), problem.hint ? el("p", {}, problem.hint) : null,
    el("button", { type: "button", class: "button", onclick: () => render() }, "Try again")));
}

function signIn(wrong = "") {
  const field = el("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  const send = async (event) => {
    event.preventDefault();
    try {
      await post("/session", { token: field.value });
      start();
    } catch (problem) {
      signIn(problem.message);
    }
  };
  show(side);
  show(main, el("form", { class: "sign-in panel", onsubmit: send }, el("h1", {}, "This server asks for its token"),
    wrong ? el("p", { role: "alert", class: "wrong" }, wrong) : null, el("label", { for: "token" }, "Token"), field,
    el("button", { type: "submit", class: "button" }, "Sign in")));
  field.focus();
}

// --- What somebody does ------------------------------------------------------------------

box.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => go(searching({ q: box.value.trimStart(), n: "10" }), !current().doc), PAUSE);
});

document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  go(searching({ q: box.value.trim(), n: "10" }), !current().doc);
});

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-route]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const to = new URL(link.getAttribute("href"), location.href);
  const before = current();
  const kept = new URLSearchParams(to.search);
  if (kept.has("doc") && !kept.has("q") && before.q) kept.set("q", before.q); // a link in a document
  history.pushState({}, "", kept.size ? `/?${kept}` : "/");
  render({ focus: true });
  if (!kept.has("doc")) scrollTo(0, 0);
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.key === "/" && (!typing || (typing === box && !box.value))) {
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "Escape") {
    escape(typing);
  } else if (["ArrowDown", "ArrowUp"].includes(event.key) && (!typing || typing === box)) {
    if (move(event.key === "ArrowDown" ? 1 : -1)) event.preventDefault();
  } else if (event.key === "Enter" && event.target === box) {
    const first = main.querySelector('.cards a.title');
    if (first && box.value.trim() === current().q.trim()) {
      event.preventDefault();
      first.click();
    }
  }
});

function escape(typing) {
  const state = current();
  if (state.doc || state.view) go(withChange({ doc: "", root: "", lines: "", view: "" }));
  else if (typing && typing !== box) box.focus();
  else {
    box.value = "";
    box.focus();
    go(searching({ q: "", why: "", n: "10" }), true);
  }
}

// Up and down through the results; above the first is the box.
function move(step) {
  const links = [...main.querySelectorAll(".cards a.title")];
  const at = links.indexOf(document.activeElement);
  if (!links.length || (at < 0 && document.activeElement !== box && document.activeElement !== document.body && document.activeElement !== main)) return false;
  const next = links[at + step];
  if (next) next.focus();
  else if (at === 0 && step < 0) box.focus();
  return Boolean(next) || at === 0;
}

addEventListener("popstate", () => render());

// --- Light and dark, indexing ------------------------------------------------------------

const themes = document.getElementById("theme");
function theme(name) {
  document.documentElement.dataset.theme = name;
  themes.textContent = THEMES[name];
  themes.setAttribute("aria-label", `Colours: ${THEMES[name]}`);
  try {
    localStorage.setItem("theme", name);
  } catch {
    // A browser that keeps nothing for pages: it is chosen anew next time.
  }
}
function stored() {
  try {
    return localStorage.getItem("theme") || "";
  } catch {
    return "";
  }
}
themes.addEventListener("click", () => {
  const names = Object.keys(THEMES);
  theme(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
});

function heard(roots) {
  const busy = roots.filter((root) => root.what && root.total);
  const bar = document.getElementById("progress");
  bar.hidden = !busy.length;
  const [done, total] = ["done", "total"].map((name) => busy.reduce((sum, root) => sum + root[name], 0));
  if (busy.length) {
    bar.firstElementChild.style.width = `${((100 * done) / total).toFixed(1)}%`;
    bar.setAttribute("aria-valuenow", String(Math.round((100 * done) / total)));
  }
  document.getElementById("dot").dataset.state = roots.some((root) => root.what) ? "busy" : "still";
  const place = document.getElementById("doing");
  if (place) show(place, roots.map(doing));
  const state = current();
  if (served(roots.map((root) => root.root)) && !state.doc && state.view !== "status") facets(side, state, go).catch(() => {});
  const now = roots.map((root) => root.generation).join();
  if (generation !== null && now !== generation) renewed();
  generation = now;
}

// A new generation: the same question may have another answer. A document that is being read stays.
function renewed() {
  const state = current();
  if (!state.doc && (state.q || state.view)) render({ quietly: true });
  else if (!state.doc) facets(side, state, go).catch(() => {});
}

async function start() {
  if (await render()) listen(heard);
}

theme(stored());
box.value = current().q;
if (!current().doc && !current().view) box.focus();
start();
