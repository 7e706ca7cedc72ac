// The numbers of a window: the picture of their distribution, and a table of quantiles, means and ranges.

import { WEAK } from "../words.js";
import { digits, element, inside, percent } from "../format.js";
import { Distribution } from "./distribution.js";
import { position } from "./scale.js";
import { levelNote, places, plain, short, title, withInterval, withUnit } from "./text.js";

const quantileName = (share) => `p${Number((100 * share).toPrecision(12))}`;

/** Returns the answers of an estimate in the order of its table: name, measure, value, low, high and, of ranges, their ends. */
export function answersOf({ numbers }) {
  if (!numbers) return [];
  const quantiles = Object.entries(numbers.quantiles).map(([share, row]) => ({ name: quantileName(Number(share)), measure: "number", ...row }));
  const means = ["geometric_mean", "mean"].filter((name) => numbers[name]).map((name) => ({ name, measure: "number", ...numbers[name] }));
  const ranges = Object.entries(numbers.ranges).map(([name, { share, ...row }]) => ({ name, measure: "share", value: share, ...row }));
  return [...quantiles.sort((one, other) => Number(one.name.slice(1)) - Number(other.name.slice(1))), ...means, ...ranges];
}

/** Returns an answer with its interval as text. */
export function answerText({ measure, value, low, high, level }, unit) {
  if (measure === "number") return withInterval({ value, low, high, level }, unit);
  const decimals = digits((high - low) / 4);
  return `${percent(inside(value), decimals)} (${percent(low, decimals)} to ${percent(high, decimals)}${levelNote(level)})`;
}

/** Returns a distribution in a sentence. */
export function summary(estimate) {
  const { numbers } = estimate;
  if (!numbers) return "";
  if (estimate.nothing_proved) return estimate.nothing_text;
  const rows = answersOf(estimate);
  const quantiles = rows.filter(({ name }) => /^p\d/.test(name));
  const parts = quantiles.map((row) => `${row.name} is ${row.weak ? `unknown (${WEAK})` : answerText(row, numbers.unit)}`);
  const reach =
    numbers.resolution === null
      ? ""
      : ` The share of the numbers below any number is known to ± ${(100 * numbers.resolution).toFixed(1)} percentage points.`;
  return `${parts.join(", ")}.${reach}`;
}

/** Returns the ends of a range. Numbers are counted in bins, so the range of the file begins and ends at edges of bins. */
function rangeText({ name, from, to }, { unit, file }) {
  const text = (start, end) => `${short(start)} to ${short(end)}${unit ? ` ${unit}` : ""}`;
  const [start, end] = file[name] ?? [from, to];
  const isMoved = short(start) !== short(from) || short(end) !== short(to);
  return isMoved ? `${text(start, end)}, counted from ${short(from)} to ${short(to)}, the nearest edges of bins` : text(from, to);
}

export class NumbersView {
  /** Builds the view in a box. `choose` is called with the name of an answer. */
  constructor(box, choose) {
    this.box = box;
    this.choose = choose;
    this.picture = element("div", { class: "distribution", role: "img", "aria-label": "Distribution" });
    this.text = element("p", { class: "sub summary" });
    this.body = element("tbody");
    const head = (text, kind) => element("th", { scope: "col", class: kind }, text);
    const heads = [
      head("Answer", "answer"),
      head("Value", "number"),
      head(element("span", { class: "hidden" }, "Interval on the scale"), "plot"),
      head("95% interval", "interval"),
      head("Truth", "number truth"),
      head("Error", "number truth"),
    ];
    const caption = element("caption", { class: "hidden" }, "Quantiles, means and ranges. Choose one to see its history.");
    const table = element("table", { id: "quantities" }, caption, element("thead", {}, element("tr", {}, ...heads)), this.body);
    this.scroll = element("div", { class: "scroll", role: "region", "aria-label": "Quantiles, means and ranges", tabindex: "0" }, table);
    const item = (kind, text, more = "") => element("li", { class: more }, element("i", { class: `key ${kind}` }), text);
    this.legend = element(
      "ul",
      { class: "legend", "aria-label": "Legend" },
      item("block", "share of a block"),
      item("band", "its 95% interval"),
      item("stem", "quantile with its 95% interval"),
      item("mean", "mean, on a logarithmic scale the geometric mean"),
      item("true-line", "truth (simulated)", "truth"),
    );
    this.box.append(this.picture, this.text, this.scroll, this.legend);
    this.distribution = new Distribution(this.picture);
  }

  /** Shows the numbers of an estimate and, in a simulation, the true ones. */
  show(estimate, attribute, selection) {
    const { numbers, truths } = estimate;
    this.box.hidden = !numbers;
    if (!numbers) return;
    const rows = answersOf(estimate);
    const mean = numbers.scale === "log" ? "geometric_mean" : "mean";
    const isMark = ({ name, measure, value, weak }) =>
      measure === "number" && value !== null && !weak && (name === mean || !["mean", "geometric_mean"].includes(name));
    const marks = rows
      .filter(isMark)
      .map((row) => ({ ...row, label: row.name === mean ? title(mean).toLowerCase() : row.name, kind: row.name === mean ? "mean" : "quantile" }));
    const ranges = rows.filter(({ measure, value, weak }) => measure === "share" && value !== null && !weak);
    const truth = estimate.error ? estimate.values.map((each) => each.truth) : null;
    this.distribution.show(numbers, estimate.values, marks, ranges, truth, selection);
    for (const box of [this.picture, this.scroll, this.legend]) box.hidden = Boolean(estimate.nothing_proved);
    this.text.textContent = summary(estimate);
    this.picture.setAttribute("aria-label", `Distribution. ${summary(estimate)}`);
    const focus = document.activeElement?.dataset?.answer;
    const scale = { ...numbers, file: attribute.numbers.ranges };
    this.body.replaceChildren(...rows.map((row) => this.#row(row, scale, truths?.[row.name] ?? null, row.name === selection)));
    if (focus) [...this.body.querySelectorAll("button")].find((each) => each.dataset.answer === focus)?.focus({ preventScroll: true });
  }

  #row(row, numbers, truth, isChosen) {
    const isNumber = row.measure === "number";
    const isKnown = row.value !== null && !row.weak;
    const decimals = isNumber ? places(row.low, row.high) : digits((row.high - row.low) / 4);
    const text = (value) => (value === null ? "–" : isNumber ? withUnit(value, decimals, numbers.unit) : percent(value, decimals));
    const bare = (value) => (isNumber ? plain(value, decimals) : percent(value, decimals));
    const at = (value) => 100 * (isNumber ? position(numbers, value) : value);
    const track = element("div", { class: "track", "aria-hidden": "true" });
    if (isKnown) {
      const place = (node, left, width) => {
        node.style.left = `${Math.min(Math.max(left, 0), 100)}%`;
        if (width !== undefined) node.style.width = `${Math.min(Math.max(width, 0), 100)}%`;
        return node;
      };
      if (!isNumber) track.append(place(element("i", { class: "bar" }), 0, at(row.value)));
      track.append(place(element("i", { class: "whisker" }), at(row.low), at(row.high) - at(row.low)));
      if (isNumber) track.append(place(element("i", { class: "dot" }), at(row.value)));
      if (truth !== null) track.append(place(element("i", { class: "true" }), at(truth)));
    }
    const ends = row.from === undefined ? [] : [" ", element("small", {}, rangeText(row, numbers))];
    const button = element(
      "button",
      { type: "button", "data-answer": row.name, "aria-pressed": String(isChosen), onclick: () => this.choose(row.name) },
      title(row.name),
    );
    const unknown = row.weak ? element("span", { class: "weak" }, WEAK) : "–";
    const error = truth === null || !isKnown ? null : row.value - truth;
    return element(
      "tr",
      { class: isChosen ? "chosen" : null },
      element("th", { scope: "row", class: "answer" }, button, ...ends),
      element("td", { class: "number" }, isKnown ? element("data", { value: row.value }, text(isNumber ? row.value : inside(row.value))) : unknown),
      element("td", { class: "plot" }, track),
      element("td", { class: "interval" }, isKnown ? `${bare(row.low)} – ${bare(row.high)}` : "–"),
      element("td", { class: "number truth" }, text(truth)),
      element("td", { class: "number truth" }, error === null ? "–" : `${error > 0 ? "+" : ""}${bare(error)}`),
    );
  }
}
