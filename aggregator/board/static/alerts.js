// What has entered, left or risen: a list of all, and news of those that come while somebody looks.

import { count, element, ends, moment, percent, windowName } from "./format.js";
import { CHANGES, TOGETHER } from "./words.js";

const FRESH = 60; // seconds of log time in which a row carries a tag
const NEWS = 3;
const NAMED = 5; // values of a group
const MANY = 3; // of one kind at one time are one line
const TAGS = { enter: "proved", leave: "no more", surge: "risen" };

const subject = ({ query, attribute, window }) =>
  `${query}${attribute === null ? "" : `, ${attribute}`}, ${window.kind === "all" ? "" : "window of "}${windowName(window)}`;

export class Alerts {
  #shown = [];

  constructor(list, news) {
    this.list = list;
    this.news = news;
  }

  /** The newest first, what came together in one line; of a change that several kinds of windows show, the first. */
  show(alerts) {
    const first = new Map();
    for (const alert of [...alerts].reverse()) {
      const key = JSON.stringify([alert.query, alert.kind, alert.value, alert.attribute, Math.floor(alert.window.end / FRESH)]);
      if (!first.has(key)) first.set(key, alert);
    }
    this.#shown = [...first.values()].reverse();
    const groups = new Map();
    for (const alert of this.#shown) {
      const key = alert.baseline ? alert.query : JSON.stringify([alert.query, alert.attribute, alert.kind, alert.window.end]);
      groups.set(key, [...(groups.get(key) ?? []), alert]);
    }
    const rows = [...groups.values()].flatMap((group) =>
      group[0].baseline || group.length > MANY ? [this.#group(group)] : group.map((alert) => this.#row(alert)),
    );
    this.list.replaceChildren(...(rows.length ? rows : [element("li", { class: "more" }, "Nothing has changed so far.")]));
  }

  /** A change that has just come; each stays where it is, what rises longest. What was there from the start is no news. */
  tell(alert) {
    if (alert.baseline) return;
    const close = () => note.remove();
    const text = `${alert.value} ${CHANGES[alert.kind]} (${subject(alert)}): ${percent(alert.share)}${this.#before(alert)}`;
    const note = element("p", {}, element("span", {}, text), element("button", { type: "button", onclick: close }, "Dismiss"));
    const said = [...this.news.children];
    note.dataset.key = JSON.stringify([alert.query, alert.attribute, alert.kind, alert.value]);
    note.dataset.kind = alert.kind;
    if (said.some((each) => each.dataset.key === note.dataset.key)) return;
    if (said.length >= NEWS) (said.findLast((each) => each.dataset.kind !== "surge") ?? said.at(-1)).remove();
    const taken = [...this.news.children].map((each) => Number(each.style.gridRowStart));
    note.style.gridRowStart = Math.max(...[...Array(NEWS).keys()].map((at) => at + 1).filter((at) => !taken.includes(at)));
    this.news.prepend(note);
    setTimeout(close, 1000 * FRESH);
  }

  /** The newest change of each value of an attribute, of those within a minute of `end`. */
  recent(attribute, end) {
    const fresh = this.#shown.filter(
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
    const named = values.slice(0, NAMED).map(ends).join(", ") + (values.length > NAMED ? ", …" : "");
    const from = `${values.length === 1 ? "value was" : "values were"} frequent from the start:`;
    const text = alert.baseline ? from : `values ${TOGETHER[alert.kind]}:`;
    const tag = element("span", { class: `tag ${alert.kind}` }, alert.baseline ? "baseline" : TAGS[alert.kind]);
    const of = alert.baseline ? alert.query : subject(alert);
    return element("li", {}, this.#time(alert), tag, element("span", {}, element("b", {}, count(values.length)), ` ${text} ${named}`), element("small", {}, of));
  }
}
