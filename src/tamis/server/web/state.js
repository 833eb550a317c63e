// What the page shows is in its address, all of it: so the back button goes back, and a search can be shared.

const USUAL = { q: "", in: "", archived: "", n: "10", view: "", doc: "", root: "", lines: "", why: "" };

export function current() {
  const given = new URLSearchParams(location.search);
  const state = { ...USUAL };
  for (const name of Object.keys(USUAL)) state[name] = given.get(name) ?? USUAL[name];
  return state;
}

export function address(state) {
  const query = new URLSearchParams();
  for (const [name, usual] of Object.entries(USUAL)) {
    if (state[name] !== undefined && state[name] !== usual) query.set(name, state[name]);
  }
  return query.size ? `/?${query}` : "/";
}

// The same with some of it changed. A document keeps the search it was found by.
export function withChange(change) {
  return { ...current(), ...change };
}

export function searching(change) {
  return withChange({ doc: "", root: "", lines: "", view: "", ...change });
}

// What the server is asked: the filters are in the query's own text.
export function filters(state) {
  return { exclude_archived: state.archived ? "false" : "" };
}

// The same for a search: of several roots, one may be chosen.
export function scope(state) {
  return { root: state.in, ...filters(state) };
}
