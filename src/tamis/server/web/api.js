// Asking the server. What it refuses is a Problem, with what to do about it.

const PREFIX = "/api/v1";

export class Problem extends Error {
  constructor(status, detail, hint) {
    super(detail);
    this.status = status;
    this.hint = hint || "";
  }
}

export async function get(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") query.append(name, value);
  }
  const asked = query.size ? `${PREFIX}${path}?${query}` : `${PREFIX}${path}`;
  return read(await reach(asked, { signal }));
}

export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return read(await reach(`${PREFIX}${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

// A path as a part of an address: its slashes stay.
export function encoded(path) {
  return path.split("/").map(encodeURIComponent).join("/");
}

async function reach(address, how) {
  try {
    return await fetch(address, how);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server cannot be reached.", "Is tamis serve still running?");
  }
}

async function read(response) {
  const told = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(response.status, told.detail || response.statusText, told.hint);
  return told;
}

// How indexing stands, whenever that changes. The browser comes back by itself when the server was away.
export function listen(heard) {
  const source = new EventSource(`${PREFIX}/events`);
  source.addEventListener("state", (event) => heard(JSON.parse(event.data)));
  return source;
}
