// The picture of a distribution: blocks with their band, quantiles as lines with whiskers, the mean, and named ranges.

import { axis, percent, ticks as shareTicks } from "../format.js";
import { position, ticks } from "./scale.js";
import { axisNumber } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 44; // pixels for the labels of shares
const RIGHT = 14;
const LANE = 26; // pixels of a row of whiskers
const RANGE_LANE = 26; // pixels of a row of ranges
const PLOT = 190; // pixels of the blocks
const LETTER = 7; // pixels, about
const BOLD_LETTER = 8;
const GAP = 10; // pixels between a label or a whisker and the next of its row

function shape(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** Puts intervals into as few rows as possible, so that none covers another. */
function lanes(items) {
  const ends = [];
  for (const item of items) {
    const free = ends.findIndex((end) => end + GAP < item.start);
    item.lane = free < 0 ? ends.length : free;
    ends[item.lane] = item.end;
  }
  return ends.length;
}

export class Distribution {
  #box;
  #data = null;

  constructor(box) {
    this.#box = box;
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  /** Shows the numbers of an estimate. `marks` are quantiles and a mean; `ranges` have ends too; `truth` has a share for each block. */
  show(numbers, shares, marks, ranges, truth, selection) {
    this.#data = { numbers, shares, marks, ranges, truth, selection };
    this.#draw();
  }

  #draw() {
    const width = this.#box.clientWidth;
    if (this.#data === null || width < 50) return;
    const { numbers, shares, marks, ranges, truth, selection } = this.#data;
    const x = (value) => LEFT + (width - LEFT - RIGHT) * position(numbers, value);
    const placed = this.#marks(marks, x, width);
    const brackets = this.#brackets(ranges, x, width);
    const base = LANE * lanes(placed) + 8 + PLOT;
    const height = base + 28 + RANGE_LANE * lanes(brackets) + 2;
    const top = 1.06 * Math.max(...shares.map((each) => Math.max(each.share ?? 0, each.high ?? 0)), ...(truth ?? []), 1e-4);
    const y = (share) => base - (PLOT * Math.min(Math.max(share, 0), top)) / top;
    const picture = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    picture.append(...this.#grid(numbers, x, y, top, base, width));
    picture.append(...this.#blocks(numbers, shares, truth, x, y));
    picture.append(...placed.flatMap((mark) => this.#mark(mark, base, mark.name === selection)));
    picture.append(...brackets.flatMap((each) => this.#bracket(each, base + 26, each.name === selection)));
    this.#box.replaceChildren(picture);
  }

  #grid(numbers, x, y, top, base, width) {
    const nodes = [];
    for (const share of shareTicks(top, 4)) {
      nodes.push(shape("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share) }));
      nodes.push(shape("text", { class: "tick", x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, axis(share)));
    }
    let end = -Infinity;
    const values = ticks(numbers, (width - LEFT - RIGHT) / 46);
    for (const value of values) {
      const text = axisNumber(value) + (value === values.at(-1) && numbers.unit ? ` ${numbers.unit}` : "");
      const half = (LETTER * text.length) / 2;
      const at = Math.min(x(value), width - half - 1);
      nodes.push(shape("line", { class: "axis", x1: x(value), x2: x(value), y1: base, y2: base + 4 }));
      if (at - half > end) nodes.push(shape("text", { class: "tick", x: at, y: base + 17, "text-anchor": "middle" }, text));
      if (at - half > end) end = at + half + 4;
    }
    nodes.push(shape("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: base, y2: base }));
    return nodes;
  }

  #blocks(numbers, shares, truth, x, y) {
    const { edges } = numbers.histogram;
    const bars = shares.map(({ share }, at) =>
      shape("rect", {
        class: "block",
        x: x(edges[at]) + 0.5,
        width: Math.max(1, x(edges[at + 1]) - x(edges[at]) - 1),
        y: y(share),
        height: y(0) - y(share),
      }),
    );
    const line = (column) => column.map((share, at) => `${x(edges[at])},${y(share)} ${x(edges[at + 1])},${y(share)}`);
    const upper = line(shares.map((each) => each.high));
    const lower = line(shares.map((each) => each.low))
      .reverse()
      .map((pair) => pair.split(" ").reverse().join(" "));
    const band = shape("polygon", { class: "band", points: [...upper, ...lower].join(" ") });
    const true_ = truth === null ? [] : [shape("polyline", { class: "truth-line", points: line(truth).join(" ") })];
    return [...bars, band, ...true_];
  }

  #marks(marks, x, width) {
    const items = marks.map((mark) => {
      const half = (BOLD_LETTER * mark.label.length) / 2;
      const at = Math.min(Math.max(x(mark.value), half + 1), width - half - 1);
      return {
        ...mark,
        x: x(mark.value),
        text: at,
        from: x(mark.low),
        to: x(mark.high),
        start: Math.min(x(mark.low), at - half),
        end: Math.max(x(mark.high), at + half),
      };
    });
    return items.sort((one, other) => one.start - other.start);
  }

  #mark({ label, lane, x, text, from, to, kind }, base, isChosen) {
    const y = LANE * lane + 18;
    const chosen = isChosen ? " chosen" : "";
    return [
      shape("line", { class: `${kind} stem${chosen}`, x1: x, x2: x, y1: y, y2: base }),
      shape("line", { class: `${kind} reach${chosen}`, x1: from, x2: to, y1: y, y2: y }),
      ...[from, to].map((at) => shape("line", { class: `${kind} reach${chosen}`, x1: at, x2: at, y1: y - 4, y2: y + 4 })),
      shape("circle", { class: `${kind} dot${chosen}`, cx: x, cy: y, r: 3.5 }),
      shape("text", { class: `label${chosen}`, x: text, y: y - 7, "text-anchor": "middle" }, label),
    ];
  }

  #brackets(ranges, x, width) {
    const items = ranges.map((range) => {
      const label = `${range.name} ${percent(range.value, 1)}`;
      const half = (BOLD_LETTER * label.length) / 2;
      const [from, to] = [x(range.from), x(range.to)];
      const at = Math.min(Math.max((from + to) / 2, half + 1), width - half - 1);
      return { ...range, label, at, x1: from, x2: to, start: Math.min(from, at - half), end: Math.max(to, at + half) };
    });
    return items.sort((one, other) => one.start - other.start);
  }

  #bracket({ label, at, x1, x2, lane }, top, isChosen) {
    const y = top + RANGE_LANE * lane + 4;
    const chosen = isChosen ? " chosen" : "";
    return [
      shape("polyline", { class: `bracket${chosen}`, points: `${x1},${y - 5} ${x1},${y} ${x2},${y} ${x2},${y - 5}` }),
      shape("text", { class: `label${chosen}`, x: at, y: y + 13, "text-anchor": "middle" }, label),
    ];
  }
}
