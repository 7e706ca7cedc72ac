// The annotations of a chart: alerts, new settings of the query and notes of the operator, each a line with a number.

import { clock, element, moment } from "./format.js";

const MOST = 6; // of a chart, so that the list below it stays short
const WIDTH = 16; // pixels of a label; closer ones become one
export const ALERT = "alert";

/** Returns the newest annotations between two ends, in order of time. All but alerts have a number. */
export function numbered(annotations, [start, end]) {
  const visible = annotations.filter(({ time }) => start <= time && time <= end).sort((one, other) => one.time - other.time);
  const alerts = visible.filter(({ kind }) => kind === ALERT).slice(-MOST);
  const others = visible.filter(({ kind }) => kind !== ALERT).slice(-MOST);
  return [...alerts, ...others.map((each, at) => ({ ...each, number: at + 1 }))].sort((one, other) => one.time - other.time);
}

/** Returns the labels of annotations at positions of a chart: numbers, and "!" for alerts. Labels that would touch become one. */
export function labels(annotations, positionOf) {
  const groups = [];
  for (const { time, number } of annotations) {
    const position = positionOf(time);
    if (!groups.length || position - groups.at(-1).position >= WIDTH) groups.push({ position, numbers: [], hasAlert: false });
    const group = groups.at(-1);
    if (number === undefined) group.hasAlert = true;
    else group.numbers.push(number);
  }
  return groups.map(({ position, numbers, hasAlert }) => {
    const ends = [...new Set([numbers[0], numbers.at(-1)])].filter((number) => number !== undefined);
    return { position, text: [ends.join("–"), ...(hasAlert ? ["!"] : [])].filter(Boolean).join(" ") };
  });
}

/** Fills the list below a chart. Alerts have a list of their own, and would move the page when they come. */
export function list(box, annotations) {
  const rows = annotations.filter(({ number }) => number !== undefined);
  box.hidden = !rows.length;
  box.replaceChildren(
    ...rows.map(({ time, kind, text, number }) =>
      element(
        "li",
        { value: number },
        element("time", { datetime: new Date(1000 * time).toISOString(), title: moment(time) }, clock(time)),
        element("span", { class: "tag none" }, kind),
        element("span", {}, text),
      ),
    ),
  );
}
