// The two charts over time, drawn by uPlot. Without uPlot a sentence replaces them.

import { labels } from "./annotations.js";
import { axis, brief, clock, element } from "./format.js";
import { axisNumber } from "./numbers/text.js";
import { picture } from "./picture.js";

// Seconds between ticks. Steps of 2 and 20 minutes suit the width of a phone.
const STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

class Chart {
  annotations = []; // numbered, in order of time
  #plot = null;
  #box;
  #data = null;

  constructor(box) {
    this.#box = box;
    new ResizeObserver(() => this.#plot?.setSize(this.#size())).observe(box);
    document.addEventListener("theme", () => this.#draw());
  }

  /** Shows columns of numbers, the first of them times. A new shape draws a new chart. */
  show(data, shape = "") {
    const same = this.#plot && this.shape === shape;
    this.#data = data;
    this.shape = shape;
    if (!this.isEnough || !globalThis.uPlot) return this.#none();
    if (same) this.#plot.setData(data);
    else this.#draw();
  }

  /** Returns the picture of the chart as a file has it, or null if there is nothing to draw. */
  picture(title, note) {
    if (!this.isEnough) return null;
    return picture({ title, note, times: this.#data[0], annotations: this.annotations, ...this.parts(this.#data) });
  }

  /** Whether there are two windows, and a number to draw. */
  get isEnough() {
    return this.#windows() > 1 && this.#data.slice(1).flat().some((number) => number !== null);
  }

  #windows() {
    return this.#data === null ? 0 : this.#data[0].length;
  }

  #none() {
    this.#plot?.destroy();
    this.#plot = null;
    const texts = ["There is nothing to draw yet", "The chart begins with the second window"];
    const text = texts[this.#windows()] ?? "No window of this time has a number to draw";
    this.#box.replaceChildren(element("p", { class: "none" }, text));
  }

  #draw() {
    if (!this.isEnough) return;
    this.#plot?.destroy();
    this.#box.replaceChildren();
    const style = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
    const options = {
      ...this.#size(),
      cursor: { y: false, points: { size: 7 } },
      legend: { show: false },
      padding: [14, 28, 0, 0],
      axes: [
        { ...style, size: 30, space: 64, incrs: STEPS, values: (_, times) => times.map(clock) },
        { ...style, size: 52, values: (_, numbers) => numbers.map(this.label) },
      ],
      ...this.options(colour, this.#data),
      hooks: { draw: [(plot) => this.#drawAnnotations(plot)] },
    };
    this.#plot = new globalThis.uPlot(options, this.#data, this.#box);
  }

  /** Draws a dashed line at each annotation, and its number above. */
  #drawAnnotations(plot) {
    const { ctx, bbox } = plot;
    const pxRatio = ctx.canvas.width / plot.width;
    const positionOf = (time) => plot.valToPos(time, "x", true) / pxRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("ink");
    ctx.lineWidth = pxRatio;
    ctx.setLineDash([2 * pxRatio, 4 * pxRatio]);
    ctx.font = `600 ${11 * pxRatio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "bottom";
    for (const { time } of this.annotations) {
      const x = positionOf(time) * pxRatio;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    for (const { position, text } of labels(this.annotations, positionOf)) ctx.fillText(text, position * pxRatio, bbox.top);
    ctx.restore();
  }

  #size() {
    return { width: Math.max(this.#box.clientWidth, 100), height: this.#box.clientHeight || 200 };
  }
}

/** Returns the positions of numbers between two gaps. They have no line, so the chart draws points. */
const isolated = (plot, series) => {
  const numbers = plot.data[series];
  return [...numbers.keys()].filter((at) => numbers[at] !== null && (numbers[at - 1] ?? null) === null && (numbers[at + 1] ?? null) === null);
};

const line = (stroke, more = {}) => ({ stroke, width: 2, points: { size: 6, filter: isolated }, spanGaps: false, ...more });

/** The shares or numbers of one or two values, their intervals and a true share. Columns: end, low, high, share, truth; low, high, share. */
export class History extends Chart {
  measure = "share";

  parts([, low, high, share, truth, secondLow, secondHigh, second]) {
    const lines = [
      { column: truth, name: "true" },
      { column: share, name: "bar-edge" },
    ];
    if (second) lines.push({ column: second, name: "second" });
    return { bands: [[low, high], ...(second ? [[secondLow, secondHigh]] : [])], lines, measure: this.measure };
  }

  label = (number) => (this.measure === "share" ? axis : axisNumber)(number);

  options(colour, columns) {
    const edge = line("transparent", { width: 0, points: { show: false } });
    const truth = line(colour("true"), { dash: [5, 4] });
    const hasSecond = columns.length > 5;
    const second = hasSecond ? [edge, edge, line(colour("second"), { width: 2.5, dash: [9, 3] })] : [];
    const bands = hasSecond ? [{ series: [6, 5], fill: `${colour("second")}33` }] : [];
    return {
      series: [{}, edge, edge, line(colour("bar-edge"), { width: 2.5 }), truth, ...second],
      bands: [{ series: [2, 1], fill: `${colour("bar")}99` }, ...bands],
      scales: { y: { range: (_, low, high) => [Math.max(low < 0 ? -Infinity : 0, low - (high - low) * 0.2), high + (high - low) * 0.2 || 1] } },
    };
  }
}

/** Counted and refused reports per second. Columns: end, counted, refused. */
export class Rates extends Chart {
  parts([, counted, refused]) {
    const lines = [
      { column: counted, name: "bar-edge" },
      { column: refused, name: "threshold" },
    ];
    return { bands: [], lines, measure: "number" };
  }

  // Few reports have marks between whole numbers, which would round to the same ones.
  label = (number) => (number < 10 ? axisNumber(number) : brief(number));

  options(colour) {
    return {
      series: [
        {},
        line(colour("bar-edge"), { fill: `${colour("bar")}66` }),
        line(colour("threshold"), { width: 1.5 }),
      ],
      scales: { y: { range: (_, __, high) => [0, 1.1 * high || 1] } },
    };
  }
}
