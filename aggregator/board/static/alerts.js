// What has entered, left or risen: a list of all, and news of those that come while somebody looks.

import { element, moment, percent } from "./format.js";
import { CHANGES } from "./words.js";

const FRESH = 60; // seconds of log time in which a row carries a tag
const NEWS = 3;
const TAGS = { enter: "new", leave: "left", surge: "rising" };

export class Alerts {
  #shown = [];

  constructor(list, news) {
    this.list = list;
    this.news = news;
  }

  /** The newest first; the same value and change of several kinds of windows stands once. */
  show(alerts) {
    const first = new Map();
    for (const alert of alerts) {
      const key = JSON.stringify([alert.kind, alert.value, alert.attribute, Math.floor(alert.window.end / FRESH)]);
      if (!first.has(key)) first.set(key, alert);
    }
    this.#shown = [...first.values()];
    const rows = this.#shown.map((alert) => this.#row(alert));
    this.list.replaceChildren(...(rows.length ? rows : [element("li", { class: "more" }, "Nothing has changed so far.")]));
  }

  /** A change that has just come; what rises stays longest. */
  tell(alert) {
    const close = () => note.remove();
    const text = `${alert.value} ${CHANGES[alert.kind]}: ${percent(alert.share)}${this.#before(alert)}`;
    const note = element("p", {}, element("span", {}, text), element("button", { type: "button", onclick: close }, "Dismiss"));
    const said = [...this.news.children];
    note.dataset.key = JSON.stringify([alert.query, alert.attribute, alert.kind, alert.value]);
    note.dataset.kind = alert.kind;
    if (said.some((each) => each.dataset.key === note.dataset.key)) return;
    this.news.prepend(note);
    if (said.length >= NEWS) (said.findLast((each) => each.dataset.kind !== "surge") ?? said.at(-1)).remove();
    setTimeout(close, 1000 * FRESH);
  }

  /** The newest change of each value of an attribute, of those within a minute of `end`. */
  recent(attribute, end) {
    const fresh = this.#shown.filter((alert) => alert.attribute === attribute && alert.window.end > end - FRESH);
    return new Map(fresh.reverse().map((alert) => [alert.value, alert.kind]));
  }

  #before(alert) {
    return alert.before === null ? "" : `, before ${percent(Math.max(alert.before, 0))}`;
  }

  #row(alert) {
    const time = element("time", { datetime: new Date(1000 * alert.window.end).toISOString() }, moment(alert.window.end));
    const share = `${percent(alert.share)} (${percent(alert.low)} to ${percent(alert.high)})${this.#before(alert)}`;
    return element("li", {}, time, element("span", { class: `tag ${alert.kind}` }, TAGS[alert.kind]), element("b", {}, alert.value), share);
  }
}
