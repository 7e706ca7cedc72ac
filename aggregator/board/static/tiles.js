// The tiles with figures at the top of the page.

import { brief, count, digits, element, percent } from "./format.js";

const tile = (name, figure, note = "", exact = null) => {
  const text = exact === null ? figure : element("data", { value: exact }, figure);
  return element("div", {}, element("dt", {}, name), element("dd", {}, text), ...(note ? [element("dd", {}, note)] : []));
};

/** Returns a tile for each figure of an estimate. The newest window gives the rate. */
export function tiles(estimate, windows) {
  const last = windows.at(-1);
  const rate = last ? last.n / Math.max(last.end - last.start, 1) : null;
  const refused = estimate.refused.duplicate + estimate.refused.implausible;
  const places = Math.max(2, digits(estimate.sigma));
  const detectable = estimate.detectable === null ? "more reports needed" : `detectable from ${percent(estimate.detectable, places)}`;
  const list = [
    tile("Reports in this window", brief(estimate.n), "", estimate.n),
    tile("Reports per second", rate === null ? "–" : brief(rate)),
    tile("Refused", count(refused), refused ? `${count(estimate.refused.duplicate)} twice, ${count(estimate.refused.implausible)} implausible` : "in this window"),
    tile("Standard error", `± ${percent(estimate.sigma, places)}`, detectable, estimate.sigma),
    tile("Epsilon", String(Number(estimate.oracle.record_epsilon.toPrecision(3))), `oracle ${estimate.oracle.name}`),
  ];
  if (estimate.error) {
    const { rms, covered, values } = estimate.error;
    list.push(tile("Error now", percent(rms, places), `${count(covered)} of ${count(values)} intervals hold the truth`, rms));
  }
  return list;
}
