// A chart as a picture of its own: an SVG file with title, times and intervals, which needs no style sheet.

import { labels } from "./annotations.js";
import { axis, element, moment, ticks } from "./format.js";
import { axisNumber } from "./numbers/text.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [900, 420];
const BOX = { left: 64, right: 24, top: 74, bottom: 48 }; // pixels around the lines
const MOST_TICKS = 6;
const LINE = 18; // pixels of a line of text

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function shape(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const text = (x, y, size, content, more = {}) => shape("text", { x, y, "font-size": size, fill: colour("ink"), ...more }, content);

/** Returns the parts of a column between its gaps, each a list of positions. */
function parts(column) {
  const list = [[]];
  column.forEach((number, at) => (number === null || number === undefined ? list.push([]) : list.at(-1).push(at)));
  return list.filter((part) => part.length);
}

/** Returns an empty picture with its title and its text. */
function sheet(title, note, height) {
  const node = shape("svg", { xmlns: SVG, width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, "font-family": "sans-serif" });
  node.append(shape("title", {}, title), shape("rect", { width: WIDTH, height, fill: colour("card") }));
  node.append(text(BOX.left, 28, 18, title, { "font-weight": 600 }), text(BOX.left, 50, 13, note));
  return node;
}

/** Returns a line with its number for each annotation, and their texts below the chart. */
function annotated(annotations, x) {
  const nodes = annotations.map(({ time }) =>
    shape("line", { x1: x(time), x2: x(time), y1: BOX.top, y2: HEIGHT - BOX.bottom, stroke: colour("ink"), "stroke-dasharray": "2 4" }),
  );
  const numbers = labels(annotations, x).map(({ position, text: label }) => text(position, BOX.top - 4, 11, label, { "text-anchor": "middle" }));
  const texts = annotations.map(({ number, time, text: words }, at) =>
    text(BOX.left, HEIGHT + LINE * at, 12, `${number ?? "!"}  ${moment(time)}  ${words}`),
  );
  return [...nodes, ...numbers, ...texts];
}

/** Returns the picture of a chart. Columns: times, then `low` and `high` of a band or null, and lines with their colours. */
export function picture({ title, note, times, bands, lines, measure, annotations = [] }) {
  const numbers = [...bands.flat(2), ...lines.flatMap(({ column }) => column)].filter((number) => number !== null && number !== undefined);
  const top = 1.1 * Math.max(...numbers, 1e-6);
  const [start, end] = [times[0], Math.max(times.at(-1), times[0] + 1)];
  const x = (time) => BOX.left + ((WIDTH - BOX.left - BOX.right) * (time - start)) / (end - start);
  const y = (number) => HEIGHT - BOX.bottom - ((HEIGHT - BOX.top - BOX.bottom) * Math.max(number, 0)) / top;
  const node = sheet(title, note, HEIGHT + LINE * annotations.length);

  for (const tick of ticks(top, MOST_TICKS)) {
    const label = measure === "share" ? axis(tick) : axisNumber(tick);
    node.append(shape("line", { x1: BOX.left, x2: WIDTH - BOX.right, y1: y(tick), y2: y(tick), stroke: colour("line") }));
    node.append(text(BOX.left - 8, y(tick) + 4, 12, label, { "text-anchor": "end" }));
  }
  for (const [time, anchor] of [[start, "start"], [end, "end"]]) {
    node.append(text(x(time), HEIGHT - 16, 12, moment(time), { "text-anchor": anchor }));
  }

  for (const [low, high] of bands) {
    for (const part of parts(high)) {
      const edge = (column, places) => places.map((at) => `${x(times[at])},${y(column[at])}`);
      const points = [...edge(high, part), ...edge(low, [...part].reverse())].join(" ");
      node.append(shape("polygon", { points, fill: colour("bar"), "fill-opacity": 0.6 }));
    }
  }
  for (const { column, name } of lines) {
    for (const part of parts(column)) {
      const points = part.map((at) => `${x(times[at])},${y(column[at])}`).join(" ");
      node.append(shape("polyline", { points, fill: "none", stroke: colour(name), "stroke-width": 2.5 }));
    }
  }
  node.append(...annotated(annotations, x));
  return node;
}

/** Saves a text as a file. */
export function save(name, kind, content) {
  const link = element("a", { href: URL.createObjectURL(new Blob([content], { type: kind })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Saves a picture as a file. */
export const savePicture = (name, node) => save(name, "image/svg+xml", new XMLSerializer().serializeToString(node));
