// The tiles with figures at the top of the page.

import { brief, count, digits, element, percent } from "./format.js";
import { places, plain, withUnit } from "./numbers/text.js";
import { answersOf } from "./numbers/view.js";
import { WEAK, reason } from "./words.js";

const tile = (name, figure, note = "", exact = null) => {
  const text = exact === null ? figure : element("data", { value: exact }, figure);
  return element("div", {}, element("dt", {}, name), element("dd", {}, text), ...(note ? [element("dd", {}, note)] : []));
};

/** Returns the tile of the first quantile of numbers. */
function median(estimate) {
  const [{ name, value, low, high, weak }] = answersOf(estimate);
  if (weak) return tile(name, "–", WEAK);
  const decimals = places(low, high);
  return tile(
    name,
    value === null ? "–" : withUnit(value, decimals, estimate.numbers.unit),
    value === null ? "" : `${plain(low, decimals)} to ${plain(high, decimals)}`,
    value,
  );
}

/** Returns the tile of the smallest share that a search can show. */
function reach({ discover }) {
  if (!discover.has_search) return tile("Names", count(discover.names.length), "found before this window");
  const note = discover.smallest === null ? "more reports needed" : "found with a probability of 90%";
  return tile("Smallest share", discover.smallest === null ? "–" : percent(discover.smallest), note, discover.smallest);
}

/** Returns the tile of the errors of an estimate. */
function accuracy(estimate, after) {
  if (estimate.numbers) return median(estimate);
  if (estimate.discover) return reach(estimate);
  if (estimate.detectable === null || estimate.nothing_proved) return tile("Standard error", "–", "more reports needed");
  const detectable = `detectable from ${percent(estimate.detectable, after)}`;
  return tile("Standard error", `± ${percent(estimate.sigma, after)}`, detectable, estimate.sigma);
}

/** Returns a tile for each figure of an estimate. The newest window gives the rate. Withheld windows have no figures. */
export function tiles(estimate, windows) {
  const isWithheld = reason(estimate.quality.flags) !== null;
  const last = windows.at(-1);
  const isRateWithheld = last !== undefined && reason(last.flags) !== null;
  const rate = last && !isRateWithheld ? last.n / Math.max(last.end - last.start, 1) : null;
  const refused = estimate.refused.duplicate + estimate.refused.implausible;
  const after = Math.max(2, digits(estimate.sigma));
  const list = [
    isWithheld ? tile("Reports in this window", "–", "withheld") : tile("Reports in this window", brief(estimate.n), "", estimate.n),
    tile("Reports per second", rate === null ? "–" : brief(rate), isRateWithheld ? "withheld" : ""),
    isWithheld
      ? tile("Refused", "–", "withheld")
      : tile(
          "Refused",
          count(refused),
          refused ? `${count(estimate.refused.duplicate)} twice, ${count(estimate.refused.implausible)} implausible` : "in this window",
        ),
    isWithheld ? tile("Standard error", "–", "withheld") : accuracy(estimate, after),
    tile("Epsilon", String(Number(estimate.oracle.record_epsilon.toPrecision(3))), `oracle ${estimate.oracle.name}`),
  ];
  if (estimate.error && !estimate.nothing_proved) {
    const { rms, covered, values } = estimate.error;
    list.push(tile("Error now", percent(rms, after), `${count(covered)} of ${count(values)} intervals hold the truth`, rms));
  }
  return list;
}
