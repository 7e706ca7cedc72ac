// The alerts: a list of all, and a note for each new one while the page is open.

import { count, element, ends, moment, percent, windowName } from "./format.js";
import { PLURAL_VERBS, VERBS } from "./words.js";

const FRESH = 60; // seconds of log time that a tag or a note stays
const MOST_NOTES = 3;
const MOST_NAMES = 5; // values that a group names
const MOST_ROWS = 3; // more simultaneous alerts of a kind become one row
const TAGS = { enter: "proved", leave: "not proved", surge: "risen" };

const subject = ({ query, attribute, window }) =>
  `${query}${attribute === null ? "" : `, ${attribute}`}, ${window.kind === "all" ? "" : "window of "}${windowName(window)}`;

export class Alerts {
  #alerts = [];

  constructor(list, news) {
    this.list = list;
    this.news = news;
  }

  /** Shows alerts, the newest first. Simultaneous alerts share a row. If several kinds of windows report a change, the first one counts. */
  show(alerts) {
    const first = new Map();
    for (const alert of [...alerts].reverse()) {
      const key = JSON.stringify([alert.query, alert.kind, alert.value, alert.attribute, Math.floor(alert.window.end / FRESH)]);
      if (!first.has(key)) first.set(key, alert);
    }
    this.#alerts = [...first.values()].reverse();
    const groups = new Map();
    for (const alert of this.#alerts) {
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
    const text = `${alert.value} ${VERBS[alert.kind]} (${subject(alert)}): ${percent(alert.share)}${this.#before(alert)}`;
    const note = element("p", {}, element("span", {}, text), element("button", { type: "button", onclick: close }, "Dismiss"));
    const notes = [...this.news.children];
    note.dataset.key = JSON.stringify([alert.query, alert.attribute, alert.kind, alert.value]);
    note.dataset.kind = alert.kind;
    if (notes.some((each) => each.dataset.key === note.dataset.key)) return;
    if (notes.length >= MOST_NOTES) (notes.findLast((each) => each.dataset.kind !== "surge") ?? notes.at(-1)).remove();
    const usedRows = [...this.news.children].map((each) => Number(each.style.gridRowStart));
    note.style.gridRowStart = Math.max(...[...Array(MOST_NOTES).keys()].map((at) => at + 1).filter((at) => !usedRows.includes(at)));
    this.news.prepend(note);
    setTimeout(close, 1000 * FRESH);
  }

  /** Returns the kind of the newest alert of each value of an attribute, within the last minute before `end`. */
  recent(attribute, end) {
    const fresh = this.#alerts.filter(
      (alert) => alert.attribute === attribute && alert.window.end > end - FRESH && alert.window.end <= end && !alert.baseline,
    );
    return new Map(fresh.reverse().map((alert) => [alert.value, alert.kind]));
  }

  #before(alert) {
    return alert.before === null ? "" : `, before ${percent(Math.max(alert.before, 0))}`;
  }

  #time({ window }) {
    return element("time", { datetime: new Date(1000 * window.end).toISOString() }, moment(window.end));
  }

  #row(alert) {
    const share = `${percent(alert.share)} (${percent(alert.low)} to ${percent(alert.high)})${this.#before(alert)}`;
    const tag = element("span", { class: `tag ${alert.kind}` }, TAGS[alert.kind]);
    return element("li", {}, this.#time(alert), tag, element("b", {}, alert.value), share, element("small", {}, subject(alert)));
  }

  #group(group) {
    const [alert] = group;
    const values = [...new Set(group.map((each) => each.value))];
    const names = values.slice(0, MOST_NAMES).map(ends).join(", ") + (values.length > MOST_NAMES ? ", …" : "");
    const from = `${values.length === 1 ? "value was" : "values were"} frequent from the start:`;
    const text = alert.baseline ? from : `values ${PLURAL_VERBS[alert.kind]}:`;
    const tag = element("span", { class: `tag ${alert.kind}` }, alert.baseline ? "baseline" : TAGS[alert.kind]);
    const source = alert.baseline ? alert.query : subject(alert);
    return element("li", {}, this.#time(alert), tag, element("span", {}, element("b", {}, count(values.length)), ` ${text} ${names}`), element("small", {}, source));
  }
}
