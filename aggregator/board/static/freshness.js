// How new the numbers are: judged by the windows that have come, not by the line to the board.

import { clock, duration } from "./format.js";

const VERY = 3; // times what is expected

const about = (seconds) => {
  const unit = seconds >= 5_400 ? 3_600 : seconds >= 90 ? 60 : 1;
  return duration(Math.max(1, Math.round(seconds / unit)) * unit);
};

/** State, words, and what to look at, of one kind of window at a time of the board's clock. */
export function freshness({ latest, expected }, { retired }, now) {
  if (retired) return { state: "ended", text: latest === null ? "Retired" : `Retired, to ${clock(latest)}`, hint: "" };
  if (latest === null) return { state: "starting", text: "No data yet", hint: "" };
  const age = now - latest;
  if (age <= expected) return { state: "live", text: `Live, to ${clock(latest)}`, hint: "" };
  const hint =
    `No window has become final since ${clock(latest)}; by now the next should have. Either no reports are sent, or the ` +
    "workers do not count them: look at their /readyz, hubbub_lag_seconds and hubbub_newest_final_age_seconds.";
  return { state: age <= VERY * expected ? "late" : "stale", text: `Late by ${about(age - expected)}`, hint };
}

/** Points with the windows between them that had no reports, and up to `now` those that are missing. */
export function spaced(points, step, now, empty) {
  if (!step || points.length < 2) return points;
  const made = [];
  for (const point of points) {
    const last = made.at(-1);
    if (last && point.end - last.end > 1.5 * step) {
      made.push(empty(last.end + step));
      if (point.end - step > last.end + 1.5 * step) made.push(empty(point.end - step));
    }
    made.push(point);
  }
  return now > made.at(-1).end + 3 * step ? [...made, { ...empty(now), n: null, missing: true }] : made;
}
