// The page of one query: the ranking of a window, its changes, histories, rates, alerts and privacy.

import { absentValue } from "./absent_value.js";
import { Alerts } from "./alerts.js";
import { ApiError, table } from "./api.js";
import { Comparison } from "./comparison.js";
import { select, swap } from "./controls.js";
import { clock, count, duration, element, levelText, moment, windowName } from "./format.js";
import { PAIR, PairTable } from "./pair_table.js";
import { GroupsView, labelsOf } from "./groups/view.js";
import { NumbersView, answersOf } from "./numbers/view.js";
import { save } from "./picture.js";
import { Ranking } from "./ranking.js";
import { Series } from "./series.js";
import { StringsView } from "./strings/view.js";
import { TimeRange } from "./time_range.js";
import { outlook } from "./status.js";
import { tiles } from "./tiles.js";
import { flag, flags, forged, gap, privacy, proof, readers, reason, threshold, withheld } from "./words.js";

const FIRST_ROWS = 15;
const GROUP_ROWS = 8;
const SMOOTH = "norm_sub"; // the blocks of a histogram for the eye, with shares from 0 to 100%
const ALL = 10_000; // maximum number of rows of the API
const $ = (id) => document.getElementById(id);

export const windowKey = ({ kind, size, step }) => `${kind}-${size}-${step}`;

/** Returns the key of what an event changes: the finals of a kind of window, or its provisional window. */
export const subject = (name, window, final) => `${name} ${windowKey(window)} ${final}`;

/** Returns a text for searches: an accent is the same however it was typed. */
const folded = (text) => text.normalize().toLowerCase();

const ifGone = (error, instead) => {
  if (error instanceof ApiError && error.status === 404) return instead;
  throw error;
};

const ROWS = { names: ({ values }) => values.map((row) => row.value), first: (_, { values }) => values[0]?.value };

/** What the page shows of each kind of answer: its title, the names of the answers, and which of them comes first.
 *  If `isList`, the values are listed in the query file. If `isOpen`, one can ask for any string, and not compare. */
const KINDS = {
  values: { ...ROWS, title: "Estimates", isList: true },
  strings: { ...ROWS, title: "Names found", isOpen: true },
  numbers: {
    title: "Distribution",
    method: SMOOTH,
    names: (estimate) => answersOf(estimate).map((each) => each.name),
    first: (attribute) => attribute.numbers.quantiles[0],
  },
};

const kindOf = (attribute) => KINDS[["numbers", "strings"].find((name) => attribute[name]) ?? "values"];

/** Returns the rows of a list in which the value that the user names has its own interval, that of its history. */
function withNamed(rows, value, points, end) {
  const point = points?.points.find((each) => each.end === end);
  if (!point) return rows;
  const { low, high, may_be_zero, weak } = point;
  return rows.map((row) => (row.value === value ? { ...row, low, high, may_be_zero, weak, level: points.level } : row));
}

export class QueryPage {
  #download = null;
  #end = null;
  #seen = null; // the estimate as the page shows it

  /** Knows the address, the answers of the board and the board's clock. `empty` shows a sentence instead of the page. */
  constructor({ address, answers, now, empty, choose }) {
    Object.assign(this, { address, answers, now, empty, choose });
    this.since = Date.now() / 1000;
    this.ranking = new Ranking($("rows"), $("axis"), (value) => choose({ value }));
    this.series = new Series(now);
    this.range = new TimeRange(address, choose);
    this.alerts = new Alerts($("alerts"), $("news"), address);
    this.pairs = new PairTable($("pairs"), choose);
    this.comparison = new Comparison(address, answers);
    this.groups = new GroupsView($("groups"), choose);
    this.numbers = new NumbersView($("numbers"), (value) => choose({ value }));
    this.strings = new StringsView($("strings"), choose);
  }

  /** Returns the kind of window that the address names, by default the first one. */
  kind(query) {
    return query.windows.find((each) => windowKey(each) === this.address.get("window")) ?? query.windows[0];
  }

  /** Returns the kind of window for the chart of reports per second. */
  rateKind(query) {
    return query.windows.find((each) => each.kind === "tumbling") ?? this.kind(query);
  }

  /** Whether a new record of this kind of window changes the page. */
  shows(query, window) {
    return [this.kind(query), this.rateKind(query)].some((each) => windowKey(each) === windowKey(window));
  }

  /** Requests the page of a query and shows it. Returns whether there is a window to show. */
  async show(query) {
    const selection = this.#selection(query);
    const { of, attribute, at } = selection;
    const isFilling = this.address.get("filling") === "1";

    const estimate = await this.#estimate(selection, isFilling && !at);
    const method = estimate?.method ?? selection.method;
    this.#controls(query, attribute, method, isFilling, of);
    if (!estimate) return this.#none(...(at ? this.#gone(query, of, at) : this.#waiting(query, of)));

    const about = { ...of, method, attribute: attribute.name };
    const position = { window: estimate.window.end, provisional: !estimate.final };
    this.#setDownload(selection, about, position);
    const value = this.address.get("value") ?? (estimate.nothing_proved ? undefined : selection.view.first(attribute, estimate));
    const results = await this.#request(selection, estimate, { about, position, value });
    this.#showResults(selection, estimate, value, results);
    this.#showLink(query, of, attribute, method, value, estimate);
    return true;
  }

  /** Returns what the address asks for: the kind of window, the group, the attribute, the method and the values. */
  #selection(query) {
    const { kind, size, step } = this.kind(query);
    const labels = labelsOf(query);
    const group = labels.find((label) => label === this.address.get("group")) ?? null;
    const attribute = query.attributes.find((each) => each.name === this.address.get("attribute")) ?? query.attributes[0];
    const view = kindOf(attribute);
    const search = folded(this.address.get("find") ?? "");
    return {
      query,
      path: `queries/${encodeURIComponent(query.name)}`,
      of: { kind, size, step, group },
      labels,
      attribute,
      view,
      method: view.method ?? this.#method(query),
      at: this.address.get("at"), // the end of the window at which the page is paused
      search,
      top: this.address.has("all") || search || !view.isList ? ALL : FIRST_ROWS,
    };
  }

  /** Returns the method of the address, by default the unbiased one, whose interval the table shows. */
  #method({ methods }) {
    const choice = this.address.get("method");
    return methods.includes(choice) ? choice : methods[0];
  }

  /** Prepares the file that the download saves: all values of the visible window. */
  #setDownload({ query, path, of, attribute }, about, position) {
    const parts = [query.name, attribute.name, of.group, windowKey(of), position.window, about.method];
    const name = parts.filter((each) => each !== null).join("-");
    this.#download = [`${path}/estimate`, { ...about, ...position, top: ALL }, `${name}.csv`];
    this.#end = position.window;
  }

  /** Requests all that the page shows beside the estimate. Comparison, pairs and groups show their answers themselves. */
  async #request(selection, estimate, { about, position, value }) {
    const { query, path, of, view, attribute, at } = selection;
    const { kind, size, step, group } = of;
    const second = this.address.get("with");
    const span = this.range.parameters(estimate.window.end, of.step || query.pane, at);
    const finals = subject(query.name, of, true);

    const [[points, others], rates, changes, asked, absent, events] = await Promise.all([
      this.#histories(selection, estimate, { ...about, ...span }, [value, second]),
      this.#rates(query, path, { group, limit: 200, ...span }),
      this.answers.get([`alerts ${query.name}`], "alerts", { query: query.name, attribute: attribute.name, limit: 500 }),
      view.isOpen ? this.#askFor(query, path, { ...about, ...position }) : null,
      this.#absent(selection, estimate, { ...about, ...position }),
      // A final of this window comes often, so that a new note shows soon.
      this.answers.get([finals], `${path}/annotations`, { from: span.from, to: span.to }),
      view.isOpen ? null : this.#compare(selection, estimate, finals),
      this.#showPairs(query, path, attribute, { ...of, ...position }),
      this.#showGroups(query, path, attribute, { kind, size, step, ...position }, group),
    ]);
    return { second, points, others, windows: rates.windows, alerts: changes.alerts, asked, absent, annotations: events.annotations };
  }

  /** Requests the value that a search does not find in the table. */
  #absent({ query, path, of, search, view }, estimate, about) {
    if (!search || !view.isList || estimate.values.some((each) => folded(each.value).includes(search))) return [];
    const ask = (value) => this.answers.get([subject(query.name, of, !about.provisional)], `${path}/estimate`, { ...about, value });
    return absentValue(this.address.get("find"), { ask, query, choose: (changes) => this.choose(changes) });
  }

  /** Requests the histories of the value that the page shows, and of a second one if the user names it. */
  #histories({ query, path, of, view }, estimate, about, [value, second]) {
    if (value === undefined) return [null, null];
    const pointsOf = (name, listed) => {
      const answer = this.answers.get([subject(query.name, of, true)], `${path}/history`, { ...about, value: name, listed });
      return answer.catch((error) => ifGone(error, null));
    };

    // The first value is shown because it leads, so its interval has the level of the list. A named one keeps 95%.
    const length = view.isList && !this.address.has("value") ? estimate.values.length || null : null;
    return Promise.all([pointsOf(value, length), second === null ? null : pointsOf(second, null)]);
  }

  /** Requests the windows for the chart of reports per second. */
  #rates(query, path, parameters) {
    const { kind, size, step } = this.rateKind(query);
    const finals = subject(query.name, { kind, size, step }, true);
    return this.answers.get([finals], `${path}/windows`, { kind, size, step, ...parameters });
  }

  #compare({ query, of, labels, attribute }, estimate, finals) {
    const about = { ...of, attribute: attribute.name };
    return this.comparison.show(query, estimate, about, { subject: finals, top: this.address.has("all") ? ALL : FIRST_ROWS, labels });
  }

  /** Shows the estimate of a window, and what else was requested. */
  #showResults(selection, estimate, value, results) {
    const { query, attribute, view, at, search } = selection;
    const { points, windows, alerts, asked, absent } = results;
    this.alerts.show(at ? alerts.filter((each) => each.window.end <= at) : alerts);

    const isSearch = search && view.isList;
    const matches = isSearch ? estimate.values.filter((each) => folded(each.value).includes(search)) : estimate.values;
    const values = view.isList && this.address.has("value") ? withNamed(matches, value, points, estimate.window.end) : matches;
    this.#showEstimate(query, { ...estimate, values }, value, windows, view);
    this.numbers.show(estimate, attribute, value);
    this.strings.show(estimate, attribute, value, asked);
    $("values").replaceChildren(...view.names(estimate).map((name) => element("option", { value: name })));
    $("absent").replaceChildren(...absent);
    this.range.show(estimate.window.end);
    const { level } = estimate;
    this.#seen = { ...estimate, values: values.map((row) => ({ level, ...row })) };
    $("nothing").textContent = estimate.nothing_text ?? "";
    $("withheld").textContent = gap(estimate, query, Boolean(at));

    this.#showSeries(selection, estimate, value, results);
    $("privacy").replaceChildren(...privacy(query));
  }

  /** Shows the charts over time with their annotations. Alerts are about the total, so the history of a group has none. */
  #showSeries({ query, of }, estimate, value, { second, points, others, windows, annotations }) {
    const isSame = points?.measure === others?.measure; // a share and a number have no common axis
    const own = of.group === null ? this.alerts.annotations(estimate.attribute, [value, second]) : [];
    this.series.showHistory([value, points], second === null || !isSame ? null : [second, others], {
      simulated: query.simulated,
      step: of.step || query.pane,
      nothing: estimate.nothing_text,
      annotations: [...annotations, ...own],
    });
    this.series.showRates(windows, query, annotations);
  }

  #none(text, ...more) {
    this.empty(text, ...more);
    return false;
  }

  /** Returns a button that leads to the newest window. */
  newestButton() {
    return this.#button("Show the newest", { at: null, from: null });
  }

  #button(text, changes) {
    return element("button", { type: "button", onclick: () => this.choose(changes) }, text);
  }

  /** Returns that the board no longer has the window at which the page is paused. */
  #gone(query, { group }, at) {
    const owner = group === null ? "" : `, ${query.groups.name} ${group},`;
    return [`This board does not have the window of ${query.name}${owner} that ended at ${moment(Number(at))}.`, this.newestButton()];
  }

  /** Returns why there is no window to show, and buttons that lead to others. */
  #waiting(query, of) {
    const { name, starts, lateness, windows, groups } = query;
    if (starts !== null && starts > this.now()) return [`${name} begins at ${moment(starts)}. Earlier reports are refused.`];
    const others = windows.filter(({ latest }) => latest !== null);
    if (of.group !== null && others.some((each) => windowKey(each) === windowKey(of))) {
      return [`No final window of ${name} has reports of ${groups.name} ${of.group}.`, this.#button("Show the total", { group: null })];
    }
    if (others.length) {
      const buttons = others.map((each) => this.#button(`Show windows: ${windowName(each)}`, { window: windowKey(each), group: null }));
      return [`No window of ${name} (${windowName(of)}) is final yet.`, ...buttons];
    }
    return [
      `${name} has no final window yet, so no report has been counted. ${outlook(query, this.now())} ` +
        `This page has waited since ${clock(this.since)}. ` +
        `A window of ${windowName(of)} becomes final ${duration(lateness)} after its end, if it has reports.`,
    ];
  }

  /** Requests a window; before the first final one, the provisional window. Older records may lack a method: then the unbiased shares. */
  async #estimate({ query, path, of, attribute, method: choice, top, at }, filling) {
    const about = { ...of, method: choice, attribute: attribute.name, top, window: at };
    const ask = (provisional, method = about.method) => {
      const subjects = [true, ...(provisional ? [false] : [])].map((final) => subject(query.name, about, final));
      return this.answers.get(subjects, `${path}/estimate`, { ...about, method, provisional }).catch((error) => {
        if (error.parameter === "method" && method !== null) return ask(provisional, null);
        return ifGone(error, null);
      });
    };
    return (await ask(filling)) ?? (await ask(true));
  }

  /** Requests the share of the string in the address. Returns the string, and its answer or the error of the board. */
  async #askFor(query, path, about) {
    const text = this.address.get("ask");
    if (text === null) return null;
    try {
      return {
        text,
        answer: await this.answers.get([subject(query.name, about, !about.provisional)], `${path}/estimate`, { ...about, value: text }),
      };
    } catch (error) {
      if (error instanceof ApiError && [400, 404].includes(error.status)) return { text, error: error.message };
      throw error;
    }
  }

  /** Requests and shows the table of a pair, with the shares within the row that the address names. */
  async #showPairs(query, path, attribute, about) {
    const [first, second] = attribute.name?.split(PAIR) ?? [];
    if (second === undefined) return this.pairs.hide();
    const finals = [subject(query.name, about, !about.provisional)];
    const value = this.address.get("given");
    const ask = (route, more) => this.answers.get(finals, `${path}/${route}`, { ...about, ...more });
    const [cells, given] = await Promise.all([
      ask("estimate", { attribute: attribute.name, top: ALL }),
      value === null ? null : ask("given", { attribute: first, of: second, value }).catch((error) => ifGone(error, null)),
    ]);
    this.pairs.show(cells, given);
  }

  /** Requests and shows all groups side by side. */
  async #showGroups(query, path, attribute, about, group) {
    if (query.groups === null) return this.groups.hide();
    const finals = [subject(query.name, about, !about.provisional)];
    const answer = await this.answers
      .get(finals, `${path}/groups`, { ...about, attribute: attribute.name, top: GROUP_ROWS })
      .catch((error) => ifGone(error, null));
    if (answer === null) this.groups.hide();
    else this.groups.show(answer, attribute, query, group);
  }

  #showEstimate(query, estimate, value, windows, view) {
    const { start, end } = estimate.window;
    const name = estimate.final ? "Window" : "Provisional window";
    const cause = reason(estimate.quality.flags);
    const through = estimate.through === null ? "" : ` up to ${clock(estimate.through)}`;
    $("window").textContent =
      `${name} from ${moment(start)} to ${clock(end)}, ${cause ? withheld(cause, query) : `${count(estimate.n)} reports${through}`}`;
    $("outlook").textContent = this.address.has("at") ? "" : outlook(query, this.now());
    $("caption").textContent = `The most frequent values of ${query.name}, by ${estimate.method}`;
    $("board").classList.toggle("plain", !estimate.error);
    $("tiles").replaceChildren(...tiles(estimate, windows));
    $("flags").replaceChildren(...flags(estimate).map((each) => element("li", { class: forged(each) ? "forged" : null }, flag(each))));
    for (const box of [$("methods").closest("fieldset"), $("find")]) box.hidden = !view.isList;
    $("comparison").hidden = Boolean(view.isOpen);
    $("ranking-title").textContent = view.title;
    if (view.isList) {
      const tags = estimate.group === null ? this.alerts.recent(estimate.attribute, end) : new Map(); // alerts are about the total
      this.ranking.show(estimate, value, tags, proof(query));
    }
    $("level").textContent = `${levelText(estimate.level)} interval`;
    $("legend-level").textContent = `${levelText(estimate.level)} interval (unbiased)`;
    $("legend-proof").textContent = `proved ${proof(query)}`;
    $("legend-bar").textContent = estimate.method === "unbiased" ? "unbiased estimate" : `consistent estimate (${estimate.method})`;
    $("legend-weight").hidden = estimate.by_weight === null;
    $("legend-threshold").hidden = estimate.threshold === null;
    if (estimate.threshold !== null) $("threshold-text").textContent = threshold(query, estimate.threshold);
    $("central").textContent = readers(query, estimate);
    const more = $("more");
    const scroll = $("ranking").closest(".scroll");
    scroll.classList.toggle("long", estimate.values.length > FIRST_ROWS);
    const isUntold = estimate.nothing_proved && estimate.values.some(({ weak }) => weak);
    scroll.hidden = $("ranking-foot").hidden = cause !== null || !view.isList || isUntold || !estimate.values.length;
    more.hidden = estimate.published <= FIRST_ROWS || this.address.has("find");
    more.textContent = this.address.has("all") ? `Show the first ${FIRST_ROWS}` : `Show all ${count(estimate.published)} published`;
  }

  /** Sets the link that restores exactly what is seen, whatever comes later. */
  #showLink(query, of, attribute, method, value, estimate) {
    const comparing = this.address.has("compare") || this.address.has("from");
    $("link").hidden = !estimate.final;
    $("link").href = this.address.link({
      q: query.name,
      window: windowKey(of),
      attribute: attribute.name,
      group: of.group,
      method,
      value: value ?? null,
      at: estimate.window.end,
      filling: null,
      compare: this.comparison.from === null ? this.address.get("compare") : null,
      from: comparing ? this.comparison.from : null,
    });
  }

  /** Fills the controls, and leaves unchanged ones alone. */
  #controls(query, attribute, method, filling, of) {
    const isPaused = this.address.has("at");
    $("pause").setAttribute("aria-pressed", isPaused);
    $("pause").textContent = isPaused ? "Resume" : "Pause";
    select(
      $("kind"),
      query.windows.map((each) => [windowKey(each), windowName(each)]),
      windowKey(of),
    );
    $("attribute-box").hidden = query.attributes.length < 2;
    select(
      $("attribute"),
      query.attributes.map((each) => [each.name ?? "", each.name ?? ""]),
      attribute.name ?? "",
    );
    $("group-box").hidden = query.groups === null;
    $("group-name").textContent = query.groups === null ? "" : `By ${query.groups.name}`;
    select($("group"), [["", "total"], ...labelsOf(query).map((label) => [label, label])], of.group ?? "");
    swap(
      $("methods"),
      query.methods.map((each) => this.#radio(each)),
      query.methods.join(),
    );
    for (const input of $("methods").querySelectorAll("input")) input.checked = input.value === method;
    $("provisional").checked = filling;
    if (document.activeElement !== $("find")) $("find").value = this.address.get("find") ?? "";
  }

  #radio(method) {
    const title = method === "unbiased" ? "Unbiased: correct on average, may be negative" : "Consistent: shares from 0 to 100% that fit together";
    const input = element("input", { type: "radio", name: "method", value: method, onchange: () => this.choose({ method }) });
    return element("label", { title }, input, method);
  }

  /** Pauses at the visible window, or goes on. */
  pause(query) {
    const isPaused = this.address.has("at");
    this.choose(isPaused ? { at: null, from: null } : { q: query.name, window: windowKey(this.kind(query)), at: this.#end });
  }

  /** Saves exactly the rows that the page shows, each with the level of its interval. */
  saveSeen() {
    save(this.#download[2].replace(/csv$/, "json"), "application/json", JSON.stringify(this.#seen, null, 2));
  }

  /** Saves a chart as a picture. */
  savePicture(id) {
    this.series.savePicture(id, this.#download[2].replace(/\.csv$/, ""));
  }

  /** Saves the visible table as a file. */
  async download() {
    const [path, parameters, name] = this.#download;
    const blob = await table(path, parameters);
    const link = element("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}
