// The annotations of a chart: alerts, new settings of the query and notes of the operator, each a line with a number.

import { clock, element, moment } from "./format.js";

const MOST = 6; // of a chart, so that the list below it stays short
const WIDTH = 16; // pixels of a number; closer ones share a label

/** Returns the newest annotations between two ends, in order of time, each with its number. */
export function numbered(annotations, [start, end]) {
  const visible = annotations.filter(({ time }) => start <= time && time <= end).sort((one, other) => one.time - other.time);
  return visible.slice(-MOST).map((each, at) => ({ ...each, number: at + 1 }));
}

/** Returns the labels of annotations at positions of a chart. Numbers that would touch share one label. */
export function labels(annotations, positionOf) {
  const groups = [];
  for (const { time, number } of annotations) {
    const position = positionOf(time);
    const last = groups.at(-1);
    if (last && position - last.position < WIDTH) last.end = number;
    else groups.push({ position, start: number, end: number });
  }
  return groups.map(({ position, start, end }) => ({ position, text: start === end ? `${start}` : `${start}–${end}` }));
}

/** Fills the list below a chart. */
export function list(box, annotations) {
  box.hidden = !annotations.length;
  box.replaceChildren(
    ...annotations.map(({ time, kind, text, number }) =>
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
