// The figures on top.

import { brief, count, digits, element, percent } from "./format.js";

const tile = (name, figure, note = "", exact = null) => {
  const shown = exact === null ? figure : element("data", { value: exact }, figure);
  return element("div", {}, element("dt", {}, name), element("dd", {}, shown), ...(note ? [element("dd", {}, note)] : []));
};

/** A tile for each figure of an estimate, and of the newest window that tells the rate. */
export function tiles(said, windows) {
  const last = windows.at(-1);
  const rate = last ? last.n / Math.max(last.end - last.start, 1) : null;
  const refused = said.refused.duplicate + said.refused.implausible;
  const places = Math.max(2, digits(said.sigma));
  const found = said.detectable === null ? "needs more reports" : `from ${percent(said.detectable, places)} on is found`;
  const made = [
    tile("Reports in this window", brief(said.n), "", said.n),
    tile("Reports a second", rate === null ? "–" : brief(rate)),
    tile("Refused", count(refused), refused ? `${count(said.refused.duplicate)} twice, ${count(said.refused.implausible)} implausible` : "in this window"),
    tile("Standard error", `± ${percent(said.sigma, places)}`, `a value ${found}`, said.sigma),
    tile("Epsilon", String(Number(said.oracle.record_epsilon.toPrecision(3))), `oracle ${said.oracle.name}`),
  ];
  if (said.error) {
    const { rms, covered, values } = said.error;
    made.push(tile("Error now", percent(rms, places), `${count(covered)} of ${count(values)} intervals hold the truth`, rms));
  }
  return made;
}
