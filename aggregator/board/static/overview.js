// The overview: one row for each query, with its state, its newest window and its alerts.

import { swap } from "./controls.js";
import { count, digits, element, inside, percent, windowName } from "./format.js";
import { places, plain, withUnit } from "./numbers/text.js";
import { about, outlook, statusOf } from "./status.js";
import { nameElement } from "./strings/name.js";
import { withheld } from "./words.js";

const ORDER = ["late", "live", "quiet", "withheld", "waiting", "retired"];
const PAGE = 50; // queries on a page
const NAMES = { late: "late", withheld: "withheld", live: "live", quiet: "quiet", waiting: "waiting", retired: "retired" };

/** Returns queries by state, those that need attention first, and by their reports. */
const ordered = (queries) =>
  [...queries].sort(
    (one, other) =>
      ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || (other.n ?? -1) - (one.n ?? -1) || one.name.localeCompare(other.name),
  );

export class Overview {
  #queries = [];

  /** `choose` changes the address: a state shows only its queries, and a page the next 50. */
  constructor(body, { text, none, pages, choose }) {
    Object.assign(this, { body, text, none, pages, choose });
  }

  /** Shows the queries whose names contain a text, or that have a state, at a time of the board's clock. */
  show(queries, { search, state, page }, now) {
    this.#queries = queries;
    const found = queries.filter(({ name }) => name.toLowerCase().includes(search.toLowerCase()));
    const matches = ordered(found.filter((query) => state === null || query.state === state));
    const last = Math.max(0, Math.ceil(matches.length / PAGE) - 1);
    const number = Math.min(Math.max(0, page), last);
    const visible = matches.slice(PAGE * number, PAGE * (number + 1));
    this.body.replaceChildren(...visible.map((query) => this.#row(query, now)));
    this.none.hidden = matches.length > 0;
    this.none.textContent = this.#noneText(search, state);
    this.#showCounts(state);
    this.#showPages(number, last);
  }

  #noneText(search, state) {
    if (!this.#queries.length) return "There are no queries yet. A worker publishes them when it starts with a query file.";
    if (state !== null) return `No query ${search ? `with “${search}” in its name ` : ""}is ${NAMES[state]} now. Choose another state.`;
    return `No name of ${count(this.#queries.length)} queries contains “${search}”.`;
  }

  /** Shows how many queries have each state. A click shows only these. */
  #showCounts(state) {
    const counts = new Map(ORDER.map((name) => [name, this.#queries.filter((query) => query.state === name).length]));
    const buttons = ORDER.filter((name) => counts.get(name) || name === state).map((name) => {
      const isChosen = name === state;
      const onclick = () => this.choose({ state: isChosen ? null : name, page: null });
      const attributes = { type: "button", class: "plain", "data-state": name, "aria-pressed": String(isChosen), onclick };
      return element("button", attributes, `${count(counts.get(name))} ${NAMES[name]}`);
    });
    swap(this.text, buttons, JSON.stringify([[...counts], state]));
  }

  #showPages(number, last) {
    this.pages.hidden = last === 0;
    const button = (text, page) => {
      const isOff = page < 0 || page > last;
      return element("button", { type: "button", disabled: isOff, onclick: () => this.choose({ page: page || null }) }, text);
    };
    const text = element("span", {}, `Page ${number + 1} of ${last + 1}`);
    swap(this.pages, [button("Previous", number - 1), text, button("Next", number + 1)], `${number} ${last}`);
  }

  /** Counts the ages up, without a request. */
  tick(now) {
    const byName = new Map(this.#queries.map((query) => [query.name, query]));
    for (const cell of this.body.querySelectorAll("[data-query]")) {
      const text = this.#age(byName.get(cell.dataset.query), now);
      if (cell.textContent !== text) cell.textContent = text;
    }
  }

  #age(query, now) {
    if (query.state === "live" || query.state === "withheld") return `${about(Math.max(1, now - query.latest))} old`;
    const text = statusOf(query, now).text.replace(/^Quiet: /, ""); // the pill says it
    return query.state === "waiting" ? `${text}. ${outlook(query, now)}` : text;
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
    return [percent(inside(share), decimals), `${percent(low, decimals)} to ${percent(high, decimals)}`];
  }

  #leader(query) {
    if (query.nothing_proved) return [element("td", { class: "leader untold", colspan: 2 }, query.nothing_text)];
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
