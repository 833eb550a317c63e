// The links round a document as a picture: nodes as large as they are linked, what a filter keeps out absent.

import { get } from "./api.js";
import { el, plural, svg } from "./dom.js";
import { address, filters } from "./state.js";

const [WIDTH, HEIGHT] = [820, 560];
const ROUNDS = 260;
const SHAPE = 1.5; // width to height
const LABELLED = 40; // nodes that have their names on the picture; of more, those nearest to the middle

export async function graph(found, state, go) {
  const told = await get("/graph", { around: found.path, hops: "2", root: state.root, ...filters(state) });
  const nodes = told.nodes.map((node, at) => ({ ...node, ...start(at, told.nodes.length) }));
  const byPath = new Map(nodes.map((node) => [node.path, node]));
  const edges = told.edges.map((edge) => ({ ...edge, from: byPath.get(edge.source), to: byPath.get(edge.target) }));
  settle(nodes, edges);
  const caption = nodes.length > 1
    ? `${plural(nodes.length, "document")} within two links${told.left_out ? `, ${told.left_out} more not shown` : ""}. Drag to move, scroll to zoom, a click opens.`
    : "No document that the filter lets through is linked with this one.";
  return el("figure", { class: "graph" }, picture(nodes, edges, state, go), el("figcaption", {}, caption));
}

function start(at, count) {
  const angle = at * 2.399963;
  const far = at ? 60 + 220 * Math.sqrt(at / count) : 0;
  return { x: WIDTH / 2 + far * Math.cos(angle), y: HEIGHT / 2 + far * Math.sin(angle) * 0.7 };
}

// Springs along links, and everybody apart from everybody. The same picture every time.
function settle(nodes, edges) {
  for (let round = 0; round < ROUNDS; round++) {
    const heat = 12 * (1 - round / ROUNDS) + 0.3;
    const force = nodes.map(() => [0, 0]);
    for (let a = 0; a < nodes.length; a++) {
      for (let b = a + 1; b < nodes.length; b++) {
        const [dx, dy] = [nodes[a].x - nodes[b].x, nodes[a].y - nodes[b].y];
        const push = 5200 / (dx * dx + dy * dy + 40);
        const length = Math.hypot(dx, dy) || 1;
        force[a][0] += (push * dx) / length; force[a][1] += (push * dy) / length;
        force[b][0] -= (push * dx) / length; force[b][1] -= (push * dy) / length;
      }
    }
    const index = new Map(nodes.map((node, at) => [node, at]));
    for (const { from, to } of edges) {
      const [dx, dy] = [to.x - from.x, to.y - from.y];
      const length = Math.hypot(dx, dy) || 1;
      const pull = (length - 105) * 0.045;
      const [a, b] = [index.get(from), index.get(to)];
      force[a][0] += (pull * dx) / length; force[a][1] += (pull * dy) / length;
      force[b][0] -= (pull * dx) / length; force[b][1] -= (pull * dy) / length;
    }
    nodes.forEach((node, at) => {
      if (!at) return; // the middle stays
      force[at][1] -= (node.y - HEIGHT / 2) * 0.012; // wider than high
      const strength = Math.hypot(...force[at]) || 1;
      node.x += (force[at][0] / strength) * Math.min(heat, strength);
      node.y += (force[at][1] / strength) * Math.min(heat, strength);
    });
  }
}

function picture(nodes, edges, state, go) {
  const lines = edges.map((edge) => svg("line", { x1: edge.from.x, y1: edge.from.y, x2: edge.to.x, y2: edge.to.y, class: `edge is-${edge.type}` }));
  const circles = nodes.map((node, at) => {
    const radius = 5 + 2.6 * Math.sqrt(node.links);
    const name = node.path.split("/").at(-1);
    const target = address({ ...state, doc: node.path, lines: "", view: "graph" });
    const link = svg("a", { href: target, class: `node hops-${node.hops}`, "data-route": true, "data-path": node.path, "aria-label": `${node.path}, ${plural(node.links, "link")}` },
      svg("title", {}, node.path), svg("circle", { cx: node.x, cy: node.y, r: radius }),
      at < LABELLED ? svg("text", { x: node.x, y: node.y + radius + 13, "text-anchor": "middle" }, name) : null);
    const light = (on) => edges.forEach((edge, number) => {
      if (edge.from === node || edge.to === node) lines[number].classList.toggle("lit", on);
    });
    for (const [event, on] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]]) link.addEventListener(event, () => light(on));
    return link;
  });
  const box = bounds(nodes);
  const canvas = svg("svg", { viewBox: view(box), class: "canvas", role: "group", "aria-label": "Links as a picture" }, svg("g", {}, lines), svg("g", {}, circles));
  movable(canvas, box);
  return canvas;
}

// Round all nodes, in the shape of the page; few of them shall not fill it.
function bounds(nodes) {
  const [xs, ys] = [nodes.map((node) => node.x), nodes.map((node) => node.y)];
  const [left, right] = [Math.min(...xs) - 70, Math.max(...xs) + 70];
  const [top, bottom] = [Math.min(...ys) - 40, Math.max(...ys) + 50];
  const height = Math.max(bottom - top, (right - left) / SHAPE, 430);
  const width = height * SHAPE;
  return { x: (left + right - width) / 2, y: (top + bottom - height) / 2, width, height };
}

function view(box) {
  return `${box.x} ${box.y} ${box.width} ${box.height}`;
}

function movable(canvas, box) {
  let held = null;
  let moved = false;
  const scale = () => box.width / canvas.getBoundingClientRect().width;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const factor = event.deltaY > 0 ? 1.12 : 1 / 1.12;
    const frame = canvas.getBoundingClientRect();
    const [atX, atY] = [(event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height];
    box.x += box.width * atX * (1 - factor); box.y += box.height * atY * (1 - factor);
    box.width *= factor; box.height *= factor;
    canvas.setAttribute("viewBox", view(box));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY]; moved = false; });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return;
    const [dx, dy] = [event.clientX - held[0], event.clientY - held[1]];
    if (!moved && Math.hypot(dx, dy) < 4) return;
    moved = true;
    box.x -= dx * scale(); box.y -= dy * scale();
    held = [event.clientX, event.clientY];
    canvas.setAttribute("viewBox", view(box));
  });
  for (const event of ["pointerup", "pointerleave"]) canvas.addEventListener(event, () => { held = null; });
  canvas.addEventListener("click", (event) => { if (moved) { event.preventDefault(); event.stopPropagation(); moved = false; } }, true);
  canvas.addEventListener("dragstart", (event) => event.preventDefault());
}
