// The age of the numbers: judged by the newest final window, not by the connection to the board.

import { clock, duration, moment } from "./format.js";

const VERY = 3; // multiple of the expected age at which numbers are stale

const about = (seconds) => {
  const unit = seconds >= 5_400 ? 3_600 : seconds >= 90 ? 60 : 1;
  return duration(Math.max(1, Math.round(seconds / unit)) * unit);
};

/** Returns the state of a kind of window, its text, and a hint for the operator, at a time of the board's clock. */
export function freshness({ latest, expected }, { retired, starts, until }, now) {
  if (retired) return { state: "ended", text: latest === null ? "Retired" : `Retired, to ${moment(latest)}`, hint: "" };
  if (starts !== null && starts > now) return { state: "ended", text: `Begins at ${moment(starts)}`, hint: "" };
  if (latest === null) return { state: "starting", text: "No data yet", hint: "" };
  const age = now - latest;
  if (age <= expected) return { state: "live", text: `Live, to ${clock(latest)}`, hint: "" };
  if (until !== null && until + expected < now) return { state: "ended", text: `Ended at ${moment(until)}`, hint: "" };
  const hint =
    `No window has become final since ${moment(latest)}. Either clients send no reports, or the workers do not count them. ` +
    "Check /readyz of the workers, hubbub_lag_seconds and hubbub_newest_final_age_seconds.";
  return { state: age <= VERY * expected ? "late" : "stale", text: `No window since ${moment(latest)}, late by ${about(age - expected)}`, hint };
}

/** Adds points for windows without reports, and a missing point at `now` if the newest windows are missing. */
export function spaced(points, step, now, empty) {
  if (!step || points.length < 2) return points;
  const line = [];
  for (const point of points) {
    const last = line.at(-1);
    if (last && point.end - last.end > 1.5 * step) {
      line.push(empty(last.end + step));
      if (point.end - step > last.end + 1.5 * step) line.push(empty(point.end - step));
    }
    line.push(point);
  }
  return now > line.at(-1).end + 3 * step ? [...line, { ...empty(now), n: null, missing: true }] : line;
}
