// The ranking: a table with a bar, an interval, the threshold and, in a simulation, the true share in each row.

import { axis, boundary, digits, element, inside, levelText, percent, prefixLength, ticks } from "./format.js";
import { WEAK } from "./words.js";

const SHORT = 24; // letters of a name that is never shortened
const TAIL = 12; // letters at the end of a long name that stay visible
const APART = 46; // pixels from one tick to the next
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6]/g; // as Chinese letters

/** Returns the width of a name in letters. Wide ones count twice. */
const widthOf = (name) => name.length + (name.match(WIDE)?.length ?? 0);

const place = (node, left, width) => {
  node.style.left = `${Math.min(Math.max(left, 0), 100)}%`;
  if (width !== undefined) node.style.width = `${Math.min(Math.max(width, 0), 100)}%`;
};

const ORDINALS = { one: "st", two: "nd", few: "rd", other: "th" };
const rules = new Intl.PluralRules("en", { type: "ordinal" });
const ordinal = (number) => `${number}${ORDINALS[rules.select(number)]}`;

/** Returns the ranks that a value may have, in words. */
export function rankRange(ranks) {
  if (ranks === null) return "";
  const [first, last] = ranks;
  return first === last ? `surely ${ordinal(first)}` : `${ordinal(first)} to ${ordinal(last)}`;
}

export class Ranking {
  #rows = new Map();
  #end = 1;
  #cut = 0;

  constructor(body, axis, choose) {
    this.body = body;
    this.axis = axis;
    this.choose = choose;
    new ResizeObserver(() => this.#scale()).observe(axis);
  }

  /** Shows an estimate of the API. Rows of values that stay are moved, not replaced. */
  show(estimate, selection, tags, proof) {
    const reach = estimate.values.flatMap((row) => [row.high ?? 0, row.share ?? 0, row.truth ?? 0, row.by_weight ?? 0]);
    const most = estimate.detectable === null ? 0 : estimate.threshold ?? 0; // without a detectable share the threshold lies outside the chart
    const end = Math.min(1, 1.03 * Math.max(...reach, most, 1e-4));
    this.#end = end;
    this.#scale();
    this.#cut = this.#prefixLength(estimate.values.map((row) => row.value));
    const places = digits(estimate.sigma);
    const rows = estimate.values.map((row, at) => {
      const part = this.#rows.get(row.value) ?? this.#make(row.value);
      this.#fill(part, row, at + 1, { end, places, threshold: estimate.threshold, selection, proof, tag: tags.get(row.value) });
      return part;
    });
    const focus = document.activeElement;
    this.#rows = new Map(rows.map((part) => [part.value, part]));
    const nodes = rows.map((part) => part.node);
    if (nodes.length !== this.body.children.length || nodes.some((node, at) => this.body.children[at] !== node)) {
      this.body.replaceChildren(...nodes);
      if (this.body.contains(focus)) focus.focus({ preventScroll: true });
    }
  }

  #scale() {
    const most = Math.min(7, Math.max(1, Math.floor(this.axis.clientWidth / APART)));
    this.axis.replaceChildren(...ticks(this.#end, most).map((tick) => this.#tick(tick, this.#end)));
  }

  /** Returns the length of the common start that long names omit. Once omitted, a start stays omitted if it still fits. */
  #prefixLength(values) {
    const long = values.filter((value) => widthOf(value) > SHORT);
    const length = prefixLength(long);
    const isNew = long[0] !== undefined && (this.prefix === undefined || !long[0].startsWith(this.prefix) || length < this.prefix.length);
    if (isNew) this.prefix = long[0].slice(0, length);
    return this.prefix?.length ?? 0;
  }

  /** Returns a name in two parts. In a narrow cell the first part is shortened. */
  #name(value) {
    const isLong = widthOf(value) > SHORT;
    const text = isLong && this.#cut ? `…${value.slice(this.#cut)}` : value;
    const tail = widthOf(text) > text.length ? TAIL / 2 : TAIL;
    const at = isLong ? boundary(text, Math.max(0, text.length - tail)) : text.length;
    return [element("span", { class: "begins" }, text.slice(0, at)), element("span", { class: "ends" }, text.slice(at))];
  }

  #tick(tick, end) {
    const mark = element("span", { class: tick > 0.95 * end ? "last" : null }, axis(tick));
    place(mark, (100 * tick) / end);
    return mark;
  }

  #make(value) {
    const part = {
      value,
      place: element("b"),
      ranks: element("small"),
      range: element("span"), // the ranks again, for a page without room for their column
      mark: element("i", { class: "mark" }),
      proof: element("span", { class: "hidden" }),
      tag: element("span", { class: "tag" }),
      button: element("button", { type: "button", dir: "auto", title: value, "aria-label": value, onclick: () => this.choose(value) }),
      share: element("data"),
      byWeight: element("small", { class: "by-weight" }),
      bar: element("i", { class: "bar" }),
      whisker: element("i", { class: "whisker" }),
      threshold: element("i", { class: "threshold" }),
      true: element("i", { class: "true" }),
      total: element("i", { class: "total" }),
      interval: element("td", { class: "interval" }),
      truth: element("td", { class: "number truth" }),
      error: element("td", { class: "number truth" }),
    };
    const track = element("div", { class: "track", "aria-hidden": "true" });
    track.append(part.bar, part.threshold, part.whisker, part.true, part.total);
    const box = element("div", { class: "box" }, part.mark, part.proof, part.button, part.tag, part.range);
    part.node = element(
      "tr",
      {},
      element("td", { class: "rank" }, part.place, " ", part.ranks),
      element("th", { scope: "row", class: "value" }, box),
      element("td", { class: "number" }, part.share, part.byWeight),
      element("td", { class: "plot" }, track),
      part.interval,
      part.truth,
      part.error,
    );
    return part;
  }

  #fill(part, row, rank, { end, places, threshold, selection, proof, tag }) {
    const at = (share) => (100 * share) / end;
    if (part.cut !== this.#cut) part.button.replaceChildren(...this.#name(part.value));
    part.cut = this.#cut;
    part.place.textContent = rank;
    const mayBeZero = row.present === false && row.share !== null;
    part.ranks.textContent = mayBeZero ? "may be zero" : rankRange(row.ranks);
    part.range.textContent = part.ranks.textContent;
    part.range.className = `narrow-only ${mayBeZero ? "zero" : "range"}`;
    part.node.classList.toggle("noise", mayBeZero);
    part.mark.className = `mark ${row.decided ? "decided" : row.listed ? "listed" : "none"}`;
    part.proof.textContent = row.decided ? `Proved ${proof}:` : row.listed ? "Frequent:" : "";
    part.tag.hidden = !tag;
    part.tag.className = `tag ${tag ?? ""}`;
    part.tag.textContent = { enter: "newly proved", new: "new", back: "back", surge: "risen", fade: "fallen", leave: "left" }[tag] ?? "";
    part.button.setAttribute("aria-pressed", row.value === selection);
    part.node.classList.toggle("chosen", row.value === selection);
    part.share.value = row.share ?? "";
    part.share.textContent = row.weak ? WEAK : percent(inside(row.share), places);
    part.share.classList.toggle("weak", Boolean(row.weak));
    place(part.bar, 0, row.weak ? 0 : at(Math.max(row.share ?? 0, 0)));
    const hasInterval = row.low !== null && !row.weak;
    part.whisker.hidden = !hasInterval;
    if (hasInterval) place(part.whisker, at(row.low), at(row.high - row.low));
    part.threshold.hidden = threshold === null || threshold > end;
    if (!part.threshold.hidden) place(part.threshold, at(threshold));
    part.true.hidden = row.truth === null;
    if (row.truth !== null) place(part.true, at(row.truth));
    part.total.hidden = part.byWeight.hidden = row.by_weight === null;
    if (row.by_weight !== null) {
      place(part.total, at(row.by_weight));
      part.byWeight.textContent = `${percent(inside(row.by_weight), places)} weighted`;
      part.byWeight.title = `${percent(row.by_weight_low, places)} – ${percent(row.by_weight_high, places)}`;
    }
    const level = row.level === undefined ? "" : ` (${levelText(row.level)})`;
    part.interval.textContent = hasInterval ? `${percent(row.low, places)} – ${percent(row.high, places)}${level}` : "–";
    part.truth.textContent = percent(row.truth, places);
    const error = row.truth === null || row.share === null ? null : row.share - row.truth;
    part.error.textContent = error === null ? "–" : `${error > 0 ? "+" : ""}${percent(error, places)}`;
  }
}
