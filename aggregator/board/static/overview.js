// The overview: one row for each query, with its state, its newest window and its alerts.

import { count, digits, element, percent, windowName } from "./format.js";
import { places, plain, withUnit } from "./numbers/text.js";
import { about, statusOf } from "./status.js";
import { nameElement } from "./strings/name.js";
import { withheld } from "./words.js";

const ORDER = ["late", "withheld", "live", "quiet", "waiting", "retired"];
const NAMES = { late: "late", withheld: "withheld", live: "live", quiet: "quiet", waiting: "waiting", retired: "retired" };

export class Overview {
  #queries = [];

  constructor(body, text, none) {
    this.body = body;
    this.text = text;
    this.none = none;
  }

  /** Shows the queries whose names contain a text, at a time of the board's clock. */
  show(queries, search, now) {
    this.#queries = queries;
    const matches = queries.filter(({ name }) => name.toLowerCase().includes(search.toLowerCase()));
    this.body.replaceChildren(...matches.map((query) => this.#row(query, now)));
    this.none.hidden = matches.length > 0;
    this.none.textContent = queries.length ? `No name of ${count(queries.length)} queries contains “${search}”.` : "There are no queries yet.";
    this.text.textContent = this.#summary();
  }

  /** Counts the ages up, without a request. */
  tick(now) {
    const byName = new Map(this.#queries.map((query) => [query.name, query]));
    for (const cell of this.body.querySelectorAll("[data-query]")) {
      const text = this.#age(byName.get(cell.dataset.query), now);
      if (cell.textContent !== text) cell.textContent = text;
    }
  }

  #summary() {
    const states = this.#queries.map(({ state }) => state);
    const parts = ORDER.map((state) => [states.filter((each) => each === state).length, NAMES[state]]).filter(([many]) => many);
    return parts.map(([many, name]) => `${count(many)} ${name}`).join(", ");
  }

  #age(query, now) {
    if (query.state === "live" || query.state === "withheld") return `${about(Math.max(1, now - query.latest))} old`;
    return statusOf(query, now).text.replace(/^Quiet: /, ""); // the pill says it
  }

  #row(query, now) {
    const { state } = statusOf(query, now);
    const link = element("a", { href: `#${new URLSearchParams({ q: query.name })}` }, query.name);
    const pill = element("span", { class: "pill", "data-state": state }, NAMES[query.state]);
    const age = element("small", { "data-query": query.name }, this.#age(query, now));
    const window = query.end === null ? "" : windowName(query);
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, link),
      element("td", { class: "state" }, pill, " ", age),
      element(
        "td",
        { class: query.n === null && query.withheld_reason === null ? "reports nothing" : "reports" },
        ...this.#reports(query),
        ...(window ? [" ", element("small", {}, window)] : []),
      ),
      ...this.#leader(query),
      element(
        "td",
        { class: query.alerts ? "alerts-count" : "alerts-count nothing" },
        query.alerts
          ? element("a", { href: `#${new URLSearchParams({ q: query.name })}` }, `${count(query.alerts)} alert${query.alerts === 1 ? "" : "s"}`)
          : element("small", {}, "none"),
      ),
    );
  }

  #reports(query) {
    if (query.n !== null) return [element("b", {}, count(query.n)), ` report${query.n === 1 ? "" : "s"}`];
    return [query.withheld_reason === null ? "–" : withheld(query.withheld_reason, query)];
  }

  /** Returns the largest share, or the first quantile of numbers, and its interval, as texts. */
  #figures({ measure, unit, share, low, high }) {
    const decimals = measure === "number" ? places(low, high) : digits((high - low) / 8);
    if (measure === "number") return [withUnit(share, decimals, unit), `${plain(low, decimals)} to ${plain(high, decimals)}`];
    return [percent(share, decimals), `${percent(low, decimals)} to ${percent(high, decimals)}`];
  }

  #leader(query) {
    if (query.value === null || query.share === null)
      return [element("td", { class: "leader nothing" }, "–"), element("td", { class: "share nothing" }, "–")];
    const attribute = query.attribute === null ? [] : [element("small", {}, `${query.attribute} `)];
    const [value, interval] = this.#figures(query);
    return [
      element("td", { class: "leader" }, ...attribute, nameElement(query.value)),
      element("td", { class: "share" }, element("b", {}, value), " ", element("small", {}, interval)),
    ];
  }
}
