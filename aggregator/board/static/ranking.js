// The ranking: a table whose rows carry bar, whisker, threshold and, in a simulation, the truth.

import { axis, digits, element, percent, shared, ticks } from "./format.js";

const SHORT = 24; // letters of a name that is shown whole
const TAIL = 12; // letters at the end of a name that stay where the rest has no room
const APART = 46; // pixels from one tick to the next

const place = (node, left, width) => {
  node.style.left = `${Math.min(Math.max(left, 0), 100)}%`;
  if (width !== undefined) node.style.width = `${Math.min(Math.max(width, 0), 100)}%`;
};

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

  /** Shows an answer of the API; rows of values that stay are moved, not made anew. */
  show(said, chosen, news) {
    const reach = said.values.flatMap((row) => [row.high ?? 0, row.share ?? 0, row.truth ?? 0]);
    const most = said.detectable === null ? 0 : said.threshold ?? 0; // a threshold off the chart shows nothing
    const end = Math.min(1, 1.03 * Math.max(...reach, most, 1e-4));
    this.#end = end;
    this.#scale();
    this.#cut = this.#begins(said.values.map((row) => row.value));
    const places = digits(said.sigma);
    const rows = said.values.map((row, at) => {
      const made = this.#rows.get(row.value) ?? this.#make(row.value);
      this.#fill(made, row, at + 1, { end, places, threshold: said.threshold, chosen, news: news.get(row.value) });
      return made;
    });
    const focused = document.activeElement;
    this.#rows = new Map(rows.map((made) => [made.value, made]));
    const wanted = rows.map((made) => made.node);
    if (wanted.length !== this.body.children.length || wanted.some((node, at) => this.body.children[at] !== node)) {
      this.body.replaceChildren(...wanted);
      if (this.body.contains(focused)) focused.focus({ preventScroll: true });
    }
  }

  #scale() {
    const most = Math.min(7, Math.max(1, Math.floor(this.axis.clientWidth / APART)));
    this.axis.replaceChildren(...ticks(this.#end, most).map((tick) => this.#tick(tick, this.#end)));
  }

  /** Where the names begin to differ, which of the long ones is left out; that they once had to does not change. */
  #begins(values) {
    const long = values.filter((value) => value.length > SHORT);
    const from = shared(long);
    const other = long[0] !== undefined && (this.prefix === undefined || !long[0].startsWith(this.prefix) || from < this.prefix.length);
    if (other) this.prefix = long[0].slice(0, from);
    return this.prefix?.length ?? 0;
  }

  /** A name in two parts: the first gives way where there is no room. */
  #name(value) {
    const said = value.length > SHORT && this.#cut ? `…${value.slice(this.#cut)}` : value;
    const at = value.length > SHORT ? Math.max(0, said.length - TAIL) : said.length;
    return [element("span", { class: "begins" }, said.slice(0, at)), element("span", { class: "ends" }, said.slice(at))];
  }

  #tick(tick, end) {
    const mark = element("span", {}, axis(tick));
    place(mark, (100 * tick) / end);
    return mark;
  }

  #make(value) {
    const part = {
      value,
      rank: element("td", { class: "rank" }),
      mark: element("i", { class: "mark" }),
      sure: element("span", { class: "hidden" }),
      tag: element("span", { class: "tag" }),
      button: element("button", { type: "button", title: value, "aria-label": value, onclick: () => this.choose(value) }),
      share: element("data"),
      bar: element("i", { class: "bar" }),
      whisker: element("i", { class: "whisker" }),
      threshold: element("i", { class: "threshold" }),
      true: element("i", { class: "true" }),
      interval: element("td", { class: "interval" }),
      truth: element("td", { class: "number truth" }),
      error: element("td", { class: "number truth" }),
    };
    const track = element("div", { class: "track", "aria-hidden": "true" });
    track.append(part.bar, part.threshold, part.whisker, part.true);
    const box = element("div", { class: "box" }, part.mark, part.sure, part.button, part.tag);
    part.node = element(
      "tr",
      {},
      part.rank,
      element("th", { scope: "row", class: "value" }, box),
      element("td", { class: "number" }, part.share),
      element("td", { class: "plot" }, track),
      part.interval,
      part.truth,
      part.error,
    );
    return part;
  }

  #fill(part, row, rank, { end, places, threshold, chosen, news }) {
    const at = (share) => (100 * share) / end;
    if (part.cut !== this.#cut) part.button.replaceChildren(...this.#name(part.value));
    part.cut = this.#cut;
    part.rank.textContent = rank;
    part.mark.className = `mark ${row.decided ? "decided" : row.listed ? "listed" : "none"}`;
    part.sure.textContent = row.decided ? "Proved frequent:" : row.listed ? "Frequent:" : "";
    part.tag.hidden = !news;
    part.tag.className = `tag ${news ?? ""}`;
    part.tag.textContent = { enter: "new", surge: "risen", leave: "left" }[news] ?? "";
    part.button.setAttribute("aria-pressed", row.value === chosen);
    part.node.classList.toggle("chosen", row.value === chosen);
    part.share.value = row.share ?? "";
    part.share.textContent = percent(row.share, places);
    place(part.bar, 0, at(Math.max(row.share ?? 0, 0)));
    const known = row.low !== null;
    part.whisker.hidden = !known;
    if (known) place(part.whisker, at(row.low), at(row.high - row.low));
    part.threshold.hidden = threshold === null || threshold > end;
    if (!part.threshold.hidden) place(part.threshold, at(threshold));
    part.true.hidden = row.truth === null;
    if (row.truth !== null) place(part.true, at(row.truth));
    part.interval.textContent = known ? `${percent(row.low, places)} – ${percent(row.high, places)}` : "–";
    part.truth.textContent = percent(row.truth, places);
    const off = row.truth === null || row.share === null ? null : row.share - row.truth;
    part.error.textContent = off === null ? "–" : `${off > 0 ? "+" : ""}${percent(off, places)}`;
  }
}
