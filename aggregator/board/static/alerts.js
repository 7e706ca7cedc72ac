// The alerts: a list of all, and a note for each new one while the page is open.

import { ALERT } from "./annotations.js";
import { count, element, ends, moment, percent, quantity, windowName } from "./format.js";
import { nameElement, nameInText } from "./strings/name.js";
import { stretch, tag, thing, verb } from "./words.js";

const windowKey = ({ kind, size, step }) => `${kind}-${size}-${step}`;
const FRESH = 60; // seconds of log time that a tag or a note stays
const MOST_NOTES = 3;
const MOST_NAMES = 5; // values that a group names
const MOST_ROWS = 3; // more simultaneous alerts of a kind become one row

const CHANGED = ["surge", "fade"];
const LIMITS = { enter: "is proved above", leave: "is proved below" };

/** Returns a share of an alert as text, or the number of a quantile with its unit. */
const measure = ({ quantile, unit }, number) => (quantile === null ? percent(number) : quantity(number, unit));

/** Returns the figures of an alert: the share with that before, or the shares of two groups with their difference. */
const figures = (alert, interval) => {
  const { group, before } = alert;
  if (group) {
    const ends = `difference ${measure(alert, alert.low)} to ${measure(alert, alert.high)}`;
    return `${group} ${measure(alert, before)}, ${alert.with} ${measure(alert, alert.share)} (${ends})`;
  }
  const earlier = before === null ? "" : `, before ${measure(alert, Math.max(before, alert.quantile === null ? 0 : -Infinity))}`;
  return `${measure(alert, alert.share)}${interval}${earlier}`;
};

/** Returns what has become of a value or of a quantile, in words. */
const change = (alert) =>
  alert.quantile === null || !LIMITS[alert.kind] ? verb(alert) : `${LIMITS[alert.kind]} ${quantity(alert.threshold, alert.unit)}`;

const subject = ({ query, attribute, window }) =>
  `${query}${attribute === null ? "" : `, ${attribute}`}, ${window.kind === "all" ? "" : "window of "}${windowName(window)}`;

export class Alerts {
  #all = [];

  constructor(list, news, address = null) {
    this.list = list;
    this.news = news;
    this.address = address;
  }

  /** Shows alerts, the newest first. Simultaneous alerts share a row. If several kinds of windows report a change, the first one counts. */
  show(alerts) {
    this.#all = alerts;
    const first = new Map();
    for (const alert of [...alerts].reverse()) {
      const about = [alert.query, alert.kind, alert.value, alert.attribute, alert.group, alert.with];
      const key = JSON.stringify([...about, Math.floor(alert.window.end / FRESH)]);
      if (!first.has(key)) first.set(key, alert);
    }
    const groups = new Map();
    for (const alert of [...first.values()].reverse()) {
      const key = alert.baseline ? alert.query : JSON.stringify([alert.query, alert.attribute, alert.kind, alert.window.end]);
      groups.set(key, [...(groups.get(key) ?? []), alert]);
    }
    const rows = [...groups.values()].flatMap((group) =>
      group[0].baseline || group.length > MOST_ROWS ? [this.#group(group)] : group.map((alert) => this.#row(alert)),
    );
    this.list.replaceChildren(...(rows.length ? rows : [element("li", { class: "more" }, "There are no alerts yet.")]));
  }

  /** Shows a note for a new alert. Notes keep their places, and surges stay longest. Baselines get no note. */
  notify(alert) {
    if (alert.baseline) return;
    const close = () => note.remove();
    const text = `${nameInText(alert.value)} ${change(alert)}${stretch(alert)} (${subject(alert)}): ${figures(alert, "")}`;
    const note = element("p", {}, element("span", {}, text), element("button", { type: "button", onclick: close }, "Dismiss"));
    const notes = [...this.news.children];
    note.dataset.key = JSON.stringify([alert.query, alert.attribute, alert.kind, alert.value, alert.group, alert.with]);
    note.dataset.kind = alert.kind;
    if (notes.some((each) => each.dataset.key === note.dataset.key)) return;
    if (notes.length >= MOST_NOTES) (notes.findLast((each) => !CHANGED.includes(each.dataset.kind)) ?? notes.at(-1)).remove();
    const usedRows = [...this.news.children].map((each) => Number(each.style.gridRowStart));
    note.style.gridRowStart = Math.max(...[...Array(MOST_NOTES).keys()].map((at) => at + 1).filter((at) => !usedRows.includes(at)));
    this.news.prepend(note);
    setTimeout(close, 1000 * FRESH);
  }

  /** Returns the tag of each value of an attribute with an alert within the last minute before `end`: the newest alert counts.
   *
   * A value is newly proved if no earlier window proved it, of any kind. It is new if the same window proves that its
   * share has risen. Otherwise it is back, if it had left meanwhile.
   */
  recent(attribute, end) {
    const own = this.#all.filter((alert) => alert.attribute === attribute && alert.window.end <= end);
    const fresh = own.filter((alert) => alert.window.end > end - FRESH && !alert.baseline);
    return new Map(fresh.reverse().map((alert) => [alert.value, this.#tag(alert, own, end)]));
  }

  /** Returns the annotations of the histories of these values: each alert once, if several kinds of windows report it. */
  annotations(attribute, values) {
    const own = this.#all.filter((alert) => alert.attribute === attribute && values.includes(alert.value) && !alert.baseline);
    const first = new Map();
    for (const alert of own.reverse()) {
      const key = JSON.stringify([alert.kind, alert.value, Math.floor(alert.window.end / FRESH)]);
      if (!first.has(key)) first.set(key, { time: alert.window.end, kind: ALERT, text: `${nameInText(alert.value)} ${change(alert)}` });
    }
    return [...first.values()];
  }

  #tag(alert, own, end) {
    const key = (each) => JSON.stringify([each.value, each.window.end, windowKey(each.window)]);
    const kinds = own.filter((each) => key(each) === key(alert)).map(({ kind }) => kind);
    if (kinds.includes("enter") && kinds.includes("surge")) return "new";
    return alert.kind === "enter" ? this.#entry(alert, own, end) : alert.kind;
  }

  /** Returns the tag of a value that has entered: newly proved, back, or none. */
  #entry({ value, window }, own, end) {
    const others = own.filter((each) => each.value === value && each.window.end < window.end);
    const entries = others.filter(({ kind }) => kind === "enter").map((each) => each.window.end);
    if (!entries.length || Math.min(...entries) > end - FRESH) return "enter";
    return others.some((each) => each.kind === "leave" && each.window.end > Math.max(...entries)) ? "back" : null;
  }

  /** Returns the time of an alert, as a link to its window. */
  #time({ query, attribute, value, window, from, group, with: other }) {
    const time = element("time", { datetime: new Date(1000 * window.end).toISOString() }, moment(window.end));
    if (this.address === null) return time;
    const settings = {
      q: query,
      window: windowKey(window),
      attribute,
      group: group ?? null,
      value,
      at: window.end,
      filling: null,
      find: null,
      compare: other ? `group ${other}` : null, // as the list of comparisons names it
      from: from?.end ?? null,
    };
    const title = from ? "Show this window and what it is compared with" : "Show this window";
    return element("a", { href: this.address.link(settings), title }, time);
  }

  #row(alert) {
    const share = figures(alert, ` (${measure(alert, alert.low)} to ${measure(alert, alert.high)})`);
    const label = element("span", { class: `tag ${alert.kind}` }, tag(alert));
    return element(
      "li",
      {},
      this.#time(alert),
      label,
      element("b", {}, nameElement(alert.value)),
      share,
      element("small", {}, `${subject(alert)}${stretch(alert)}`),
    );
  }

  #group(group) {
    const [alert] = group;
    const values = [...new Set(group.map((each) => each.value))];
    const names =
      values
        .slice(0, MOST_NAMES)
        .map((name) => nameInText(ends(name)))
        .join(", ") + (values.length > MOST_NAMES ? ", …" : "");
    const isPlural = !alert.baseline || values.length > 1;
    const text = `${thing(alert, values.length)} ${verb(alert, isPlural)}:`;
    const label = element("span", { class: `tag ${alert.kind}` }, tag(alert));
    const source = alert.baseline ? alert.query : subject(alert);
    return element(
      "li",
      {},
      this.#time(alert),
      label,
      element("span", {}, element("b", {}, count(values.length)), ` ${text} ${names}`),
      element("small", {}, source),
    );
  }
}
