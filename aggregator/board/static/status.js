// The state of a query in words. The board decides it, for this page, the API and `hubbub tail` alike.

import { clock, duration, moment } from "./format.js";

const VERY = 3; // multiple of the expected age at which late numbers are stale

/** Returns a duration in its largest usual unit. */
export const about = (seconds) => {
  const unit = seconds >= 2 * 86_400 ? 86_400 : seconds >= 5_400 ? 3_600 : seconds >= 90 ? 60 : 1;
  return duration(Math.max(1, Math.round(seconds / unit)) * unit);
};

const LATE =
  "Reports wait for a window, or nobody counts them. Check /readyz of the workers, hubbub_lag_seconds and hubbub_newest_final_age_seconds.";

const SOON = 120; // seconds

const LACKS = {
  worker: ({ newest_report: newest }) => (newest === null ? "no worker has closed a pane yet" : "no worker counts it now"),
  // Reports may be in an open pane, of which nobody tells the board.
  reports: ({ newest_report: newest }) => (newest === null ? "no closed pane has reports yet" : "no reports have come"),
  people: ({ crowd }) => `too few people: windows with fewer than ${crowd} reports are withheld`,
};

/** Returns what is missing for the next window of a query, and when it closes, as sentences. Empty if neither is known. */
export function outlook(query, now) {
  const sentences = [];
  const lack = LACKS[query.lacks];
  if (lack !== undefined) sentences.push(lack(query));
  // A sentence that comes and goes with each short window would move what stands below it.
  if (query.next_due > now + (query.state === "waiting" ? 0 : SOON)) {
    const verb = query.next_end > now ? "ends" : "ended"; // its lateness may not be over
    sentences.push(`the next window ${verb} at ${moment(query.next_end)}, its result comes soon after ${moment(query.next_due)}`);
  }
  return sentences.map((text) => `${text[0].toUpperCase()}${text.slice(1)}.`).join(" ");
}

const TEXTS = {
  retired: ({ latest }) => ({ state: "ended", text: latest === null ? "Retired" : `Retired, to ${moment(latest)}` }),
  waiting: ({ starts }, now) =>
    starts !== null && starts > now ? { state: "ended", text: `Begins at ${moment(starts)}` } : { state: "starting", text: "No data yet" },
  late: ({ latest, expected }, now) => {
    const age = now - latest;
    const text = `No window since ${moment(latest)}, late by ${about(Math.max(1, age - (expected ?? 0)))}`;
    return { state: age <= VERY * expected ? "late" : "stale", text, hint: LATE };
  },
  quiet: ({ latest, newest_report: newest, until }, now) =>
    until !== null && until <= now
      ? { state: "ended", text: `Ended at ${moment(until)}` }
      : { state: "quiet", text: `Quiet: no reports since ${moment(newest ?? latest)}` },
  withheld: ({ latest }) => ({ state: "withheld", text: `Withheld, to ${clock(latest)}` }),
  live: ({ latest }) => ({ state: "live", text: `Live, to ${clock(latest)}` }),
};

/** Returns the style, the text and a hint for the operator of a query's state, at a time of the board's clock. */
export const statusOf = (query, now) => ({ hint: "", ...TEXTS[query.state](query, now) });

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
