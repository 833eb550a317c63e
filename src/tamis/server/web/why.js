// Why a result is there, and what the search left out on the way: the funnel as a picture.

import { el, plural, svg } from "./dom.js";

// What the picture shows of the stages; those between that leave out nobody are told with their neighbours.
const STEPS = [
  ["fused", "found by the lanes"],
  ["threshold", "above the threshold"],
  ["near text", "after duplicates"],
  ["per document", "after limits per document"],
  ["rerank", "reranked"],
  ["limit", "shown"],
];

export function because(result) {
  const rows = result.evidence.map((each) => el("tr", {},
    el("th", { scope: "row" }, el("span", { class: `key lane-${each.lane}`, "aria-hidden": "true" }), each.lane),
    el("td", {}, `rank ${each.rank}`), el("td", {}, `score ${each.score.toFixed(3)}`), el("td", {}, `counts ${each.confidence.toFixed(2)}`)));
  const boosts = Object.entries(result.boosts).map(([name, factor]) => el("li", {}, `${name}: × ${Number(factor.toPrecision(3))}`));
  const places = Object.entries(result.places || {}).map(([stage, place]) => el("li", {}, `${ordinal(place)} after ${stage}`));
  return el("div", { class: "evidence" },
    el("table", {}, el("caption", { class: "hidden" }, "Lanes that found it"), el("tbody", {}, rows)),
    boosts.length ? el("div", {}, el("h3", {}, "Boosts"), el("ul", {}, boosts)) : null,
    places.length ? el("div", {}, el("h3", {}, "Its place"), el("ul", {}, places)) : null);
}

export function funnel(found) {
  const left = Object.fromEntries(found.funnel.map((step) => [step.stage, step.left]));
  const times = spent(found.funnel);
  const kept = found.stats.eligible_documents;
  const out = found.stats.excluded_documents;
  const steps = STEPS.filter(([stage]) => stage !== "rerank" || found.stats.reranked).map(([stage, label]) => ({ stage, label, left: left[stage], ms: times[stage] ?? 0 }));
  steps[0].ms = (found.timings_ms.lanes ?? 0) + (found.timings_ms.embed ?? 0);
  return el("figure", { class: "funnel" },
    el("figcaption", {}, `${plural(kept, "document")} eligible`, out ? `, ${out.toLocaleString("en")} kept out by the filter` : "",
      found.filter ? el("code", {}, found.filter) : null),
    picture(steps),
    el("p", { class: "legend" }, ["meaning", "words", "code", "links"].map((lane) => el("span", {}, el("span", { class: `key lane-${lane}` }), lane))));
}

// The milliseconds of each step with those of the stages since the one before.
function spent(stages) {
  const times = {};
  const shown = STEPS.map(([stage]) => stage);
  let sum = 0;
  for (const step of stages) {
    sum += step.ms;
    if (shown.includes(step.stage)) {
      times[step.stage] = sum;
      sum = 0;
    }
  }
  return times;
}

function picture(steps) {
  const most = Math.max(1, steps[0].left);
  const [row, middle, wide] = [34, 116, 200];
  const half = (left) => Math.max(3, ((wide / 2) * Math.sqrt(left)) / Math.sqrt(most));
  const parts = steps.flatMap((step, at) => {
    const y = at * row;
    const [top, bottom] = [half(step.left), half((steps[at + 1] || step).left)];
    const shape = `M${middle - top} ${y} H${middle + top} L${middle + bottom} ${y + row - 3} H${middle - bottom}Z`;
    return [
      svg("path", { d: shape, class: "step" }),
      svg("text", { x: middle, y: y + 20, "text-anchor": "middle", class: "left" }, String(step.left)),
      svg("text", { x: 236, y: y + 20 }, step.label),
      svg("text", { x: 470, y: y + 20, "text-anchor": "end", class: "ms" }, `${step.ms.toFixed(1)} ms`),
    ];
  });
  const told = steps.map((step) => `${step.left} ${step.label}`).join(", ");
  return svg("svg", { viewBox: `0 0 476 ${steps.length * row}`, role: "img", "aria-label": `Funnel: ${told}` }, parts);
}

export function whyNot(why) {
  if (!why) return ["No answer."];
  return [el("b", {}, why.path), `: ${why.reason}`, why.detail ? el("span", { class: "quiet" }, ` (${why.detail})`) : ""];
}

function ordinal(number) {
  const ends = { 1: "st", 2: "nd", 3: "rd" };
  const teen = number % 100 > 10 && number % 100 < 14;
  return `${number}${(!teen && ends[number % 10]) || "th"}`;
}
