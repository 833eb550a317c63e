// What is indexed, how fresh it is, what was left out and why, and how far indexing is.

import { get, post } from "./api.js";
import { el, plural, say, show } from "./dom.js";

export async function statusView(main) {
  const told = await get("/status");
  const { freshness } = told;
  show(main, el("section", { class: "status" },
    el("h1", {}, "Status"),
    el("p", { class: freshness.complete ? "verdict good" : "verdict" }, freshness.complete ? "Up to date: every file is known as it is." : freshness.note || "Indexing goes on."),
    el("div", { id: "doing" }, told.now.map(doing)),
    told.roots.map(root),
    el("p", {}, el("button", { type: "button", class: "button", onclick: async (event) => {
      event.target.disabled = true;
      await post("/refresh").catch(() => {});
      await statusView(main);
      say("Looked for changed files.");
    } }, "Look for changed files now")),
    el("p", { class: "quiet" }, `tamis ${told.server.version} · `, el("a", { href: "/api/v1/openapi.json" }, "API"))));
}

export function doing(now) {
  if (!now.what) return el("p", { class: "quiet", "data-root": now.root }, `${now.root}: nothing to do`);
  return el("p", { "data-root": now.root }, el("label", {}, `${now.root}: ${now.what} ${now.total ? `${now.done.toLocaleString("en")} of ${now.total.toLocaleString("en")}` : ""} `,
    el("progress", now.total ? { max: now.total, value: now.done } : {})));
}

function root(one) {
  const fact = (name, value) => el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, value));
  const skipped = Object.entries(one.skipped);
  return el("section", { class: "panel" },
    el("h2", {}, one.root), el("p", { class: "path" }, one.path),
    el("dl", { class: "facts" },
      fact("documents", one.documents.toLocaleString("en")), fact("passages", one.chunks.toLocaleString("en")),
      fact("generation", one.generation.toLocaleString("en")), fact("model", one.model || "none"),
      fact("files pending", one.pending_files.toLocaleString("en")), fact("indexed", one.built_at ? ago(one.age_seconds) : "not yet")),
    one.workspaces.length ? el("p", {}, `Workspaces: ${one.workspaces.join(", ")}`) : null,
    skipped.length
      ? el("table", {}, el("caption", {}, `${plural(skipped.reduce((sum, [, count]) => sum + count, 0), "file")} left out`),
          el("tbody", {}, skipped.map(([reason, count]) => el("tr", {}, el("th", { scope: "row" }, reason), el("td", {}, count.toLocaleString("en"))))))
      : el("p", { class: "quiet" }, "No file was left out."));
}

function ago(seconds) {
  if (seconds < 90) return plural(seconds, "second") + " ago";
  if (seconds < 5400) return plural(Math.round(seconds / 60), "minute") + " ago";
  return seconds < 172800 ? plural(Math.round(seconds / 3600), "hour") + " ago" : plural(Math.round(seconds / 86400), "day") + " ago";
}
