// The page. The address holds the settings, and events trigger new requests.

import { ApiError, listen, remember, table } from "./api.js";
import { Alerts } from "./alerts.js";
import { Answers } from "./answers.js";
import { History, Rates } from "./charts.js";
import { clock, count, digits, duration, element, ends, levelText, moment, percent, prefixLength, windowName } from "./format.js";
import { freshness, spaced } from "./freshness.js";
import { Ranking } from "./ranking.js";
import { tiles } from "./tiles.js";
import { flag, flags, forged, gap, privacy, proof, reason, threshold, withheld } from "./words.js";

const FIRST_ROWS = 15;
const FEW = 8; // queries that need no search
const ALL = 10_000; // maximum number of rows of the API
const WAIT = 150; // milliseconds in which several events cause one refresh
const LIST_SECONDS = 60; // until the queries are listed again, because no event announces a retired one
const RANGES = [["", "all windows"], ["900", "15 min"], ["3600", "1 h"], ["21600", "6 h"], ["86400", "1 d"]];
const $ = (id) => document.getElementById(id);

const state = { since: Date.now() / 1000, queries: [], settings: new URLSearchParams(location.hash.slice(1)), all: false, ready: false, at: null, ahead: 0, listTime: 0 };
const answers = new Answers();
const ranking = new Ranking($("rows"), $("axis"), (value) => choose({ value }));
const history = new History($("history"));
const rates = new Rates($("rates"));
const alerts = new Alerts($("alerts"), $("news"));

const query = () => state.queries.find((each) => each.name === state.settings.get("q")) ?? state.queries[0];

/** Whether the address names an unknown query. */
const isUnknownQuery = () => state.settings.has("q") && query().name !== state.settings.get("q");

function kind() {
  const windows = query().windows;
  return windows.find((each) => windowKey(each) === state.settings.get("window")) ?? windows[0];
}

/** Returns the length of the charts in seconds, or an empty string for all windows. */
const chartRange = () => RANGES.find(([seconds]) => seconds === state.settings.get("range"))?.[0] ?? "";

/** Returns the kind of window for the chart of reports per second. */
const rateKind = () => query().windows.find((each) => each.kind === "tumbling") ?? kind();

/** Returns the key of what an event changes: the finals of a kind of window, or its provisional window. */
const subject = (name, window, final) => `${name} ${windowKey(window)} ${final}`;

const windowKey = ({ kind, size, step }) => `${kind}-${size}-${step}`;

/** Writes settings into the address, and refreshes the page. */
function choose(changes) {
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) state.settings.delete(key);
    else state.settings.set(key, value);
  }
  window.history.replaceState(null, "", `#${state.settings}`);
  refresh();
}

let timer = null;
let running = null;

/** Updates the page soon, but never twice at the same time. */
function refresh() {
  timer ??= setTimeout(async () => {
    await running;
    timer = null;
    running = show().catch(failed);
  }, WAIT);
}

function failed(error) {
  if (error instanceof ApiError && error.status === 401) return askForToken();
  if (error instanceof ApiError) return empty(error.message, ...(state.settings.has("at") ? [newestButton()] : []));
  lost("No connection to the board");
}

async function show() {
  state.queries = (await answers.get(["queries"], "queries")).queries;
  if (!state.queries.length) return empty("There are no queries yet.");
  if (isUnknownQuery()) {
    list(null);
    return empty(`There is no query ${state.settings.get("q")} here.`);
  }
  const current = { ...query() };
  const name = encodeURIComponent(current.name);
  const { kind: form, size, step } = kind();
  const of = { kind: form, size, step };
  const attribute = current.attributes.find((each) => each.name === state.settings.get("attribute")) ?? current.attributes[0];
  const choice = state.settings.get("method");
  const method = current.methods.includes(choice) ? choice : current.methods[0]; // unbiased, whose interval the table shows
  const filling = state.settings.get("filling") === "1";
  const about = { ...of, method, attribute: attribute.name };
  const at = state.settings.get("at"); // the end of the window at which the page is paused
  const search = $("find").value.toLowerCase();
  const top = state.all || search ? ALL : FIRST_ROWS;
  const estimate = await requestEstimate(name, { ...about, top, window: at }, filling && !at);
  controls(current, attribute, method, filling, of);
  if (!estimate && at) return empty(`This board does not have the window of ${current.name} that ended at ${moment(Number(at))}.`, newestButton());
  if (!estimate) return empty(waiting(current, of));
  const position = { window: estimate.window.end, provisional: !estimate.final };
  const nameParts = [current.name, attribute.name, windowKey(of), position.window, method].filter((each) => each !== null).join("-");
  state.download = [`queries/${name}/estimate`, { ...about, ...position, top: ALL }, `${nameParts}.csv`];
  const value = state.settings.get("value") ?? estimate.values[0]?.value;
  const rateWindow = rateKind();
  const range = Number(chartRange());
  const span = { to: at && Number(at) + 1, ...(range ? { from: Math.max(0, estimate.window.end - range), limit: ALL } : {}) };
  const asksForHistory = value !== undefined;
  const [points, windows, changes] = await Promise.all([
    asksForHistory && answers.get([subject(current.name, of, true)], `queries/${name}/history`, { ...about, value, ...span }).catch((error) => ifGone(error, { points: [] })),
    answers.get([subject(current.name, rateWindow, true)], `queries/${name}/windows`, { kind: rateWindow.kind, size: rateWindow.size, step: rateWindow.step, limit: 200, ...span }),
    answers.get([`alerts ${current.name}`], "alerts", { query: current.name, attribute: attribute.name, limit: 50 }),
  ]);
  alerts.show(at ? changes.alerts.filter((each) => each.window.end <= at) : changes.alerts);
  const values = search ? estimate.values.filter((each) => each.value.toLowerCase().includes(search)) : estimate.values;
  state.end = estimate.window.end;
  showEstimate(current, { ...estimate, values }, value, windows.windows);
  $("withheld").textContent = gap(estimate, current, Boolean(at));
  showHistory(value, points ? points.points : [], current.simulated, of.step || current.pane); // windows from the start end with each pane
  showRates(windows.windows, current);
  status();
  $("privacy").replaceChildren(...privacy(current));
  for (const [id, visible] of [["empty", false], ["token", false], ["board", true]]) {
    $(id).hidden = !visible;
  }
}

/** Returns why a query has no windows yet. */
function waiting({ name, starts, lateness }, of) {
  if (starts !== null && starts > now()) return `${name} begins at ${moment(starts)}. Earlier reports are refused.`;
  return (
    `${name} has no final window yet, so no report has been counted. This page has waited since ${clock(state.since)}. ` +
    `A window of ${windowName(of)} becomes final ${duration(lateness)} after its end, if it has reports.`
  );
}

/** Returns a button that leads to the newest window. */
const newestButton = () => element("button", { type: "button", onclick: () => choose({ at: null }) }, "Show the newest");

const ifGone = (error, instead) => {
  if (error instanceof ApiError && error.status === 404) return instead;
  throw error;
};

/** Requests a window; before the first final one, the provisional window. */
async function requestEstimate(name, about, filling) {
  const ask = (provisional) => {
    const subjects = [true, ...(provisional ? [false] : [])].map((final) => subject(query().name, about, final));
    return answers.get(subjects, `queries/${name}/estimate`, { ...about, provisional }).catch((error) => ifGone(error, null));
  };
  return (await ask(filling)) ?? (await ask(true));
}

function showEstimate(query, estimate, value, windows) {
  const { start, end } = estimate.window;
  const name = estimate.final ? "Window" : "Provisional window";
  const cause = reason(estimate.quality.flags);
  const through = estimate.through === null ? "" : ` up to ${clock(estimate.through)}`;
  $("window").textContent = `${name} from ${moment(start)} to ${clock(end)}, ${cause ? withheld(cause, query) : `${count(estimate.n)} reports${through}`}`;
  $("caption").textContent = `The most frequent values of ${query.name}, by ${estimate.method}`;
  $("board").classList.toggle("plain", !estimate.error);
  $("tiles").replaceChildren(...tiles(estimate, windows));
  $("flags").replaceChildren(...flags(estimate).map((each) => element("li", { class: forged(each) ? "forged" : null }, flag(each))));
  ranking.show(estimate, value, alerts.recent(estimate.attribute, end), proof(query));
  $("level").textContent = `${levelText(estimate.level)} interval`;
  $("legend-level").textContent = `${levelText(estimate.level)} interval (unbiased)`;
  $("legend-proof").textContent = `proved ${proof(query)}`;
  $("legend-bar").textContent = estimate.method === "unbiased" ? "unbiased estimate" : `consistent estimate (${estimate.method})`;
  $("legend-threshold").hidden = estimate.threshold === null;
  if (estimate.threshold !== null) $("threshold-text").textContent = threshold(query, estimate.threshold);
  const more = $("more");
  const scroll = document.querySelector(".scroll");
  scroll.classList.toggle("long", estimate.values.length > FIRST_ROWS);
  scroll.hidden = document.querySelector(".foot").hidden = cause !== null;
  more.hidden = estimate.published <= FIRST_ROWS || $("find").value !== "";
  more.textContent = state.all ? `Show the first ${FIRST_ROWS}` : `Show all ${count(estimate.published)} published`;
  status();
}

const UNKNOWN = { flags: [], n: 0, share: null, low: null, high: null, truth: null, duplicate: 0, implausible: 0 };
const emptyPoint = (end) => ({ ...UNKNOWN, start: end, end });

function showHistory(value, points, simulated, step) {
  const available = points.filter((point) => point.share !== null);
  const last = available.at(-1);
  const places = last ? digits((last.high - last.low) / 4) : 2;
  const gaps = points.filter((point) => point.withheld).length;
  const note = gaps ? `; ${gaps} of ${points.length} windows withheld` : "";
  if (value === undefined) $("history-text").textContent = "No window with values yet";
  else $("history-text").textContent = last
    ? `${value}: ${percent(last.share, places)} (${percent(last.low, places)} to ${percent(last.high, places)}) at ${clock(last.end)}` +
      (simulated && last.truth !== null ? `, true share ${percent(last.truth, places)}` : "") + note
    : `${value}: not among the published values${note}`;
  const line = spaced(points, step, now(), emptyPoint);
  const column = (key) => line.map((point) => point[key]);
  history.show([column("end"), column("low"), column("high"), column("share"), column("truth")], value);
}

function showRates(windows, query) {
  const seconds = (each) => Math.max(each.end - each.start, 1);
  const isWithheld = (each) => reason(each.flags) !== null;
  const refused = (each) => each.duplicate + each.implausible;
  const line = spaced(windows, windows[0]?.step, now(), emptyPoint);
  const column = (number) => line.map((each) => (each.missing || isWithheld(each) ? null : number(each) / seconds(each)));
  rates.show([line.map((each) => each.end), column((each) => each.n), column(refused)]);
  const last = windows.at(-1);
  const length = last ? windowName(last) : "";
  if (!last) $("rates-text").textContent = "";
  else if (isWithheld(last)) $("rates-text").textContent = `The last window (${length}) is ${withheld(reason(last.flags), query)}`;
  else $("rates-text").textContent = `${count(Math.round(last.n / seconds(last)))} per second in the last window (${length})`;
  const gaps = windows.filter((each) => isWithheld(each) && !each.n).length;
  const counted = windows.length - gaps;
  const total = (key) => windows.reduce((sum, each) => sum + each[key], 0);
  const rows = [
    [`Counted in ${count(counted)} window${counted === 1 ? "" : "s"}`, counted ? total("n") : null],
    ...(gaps ? [["Withheld windows", gaps]] : []),
    ["Refused: duplicates", total("duplicate")],
    ["Refused: implausible noise", total("implausible")],
  ];
  $("refused").replaceChildren(...rows.flatMap(([name, number]) => [element("dt", {}, name), element("dd", {}, number === null ? "–" : count(number))]));
}

/** Fills the controls, and leaves unchanged ones alone. */
function controls(current, attribute, method, filling, of) {
  document.title = `${current.name} · hubbub`;
  list(current.name);
  const isPaused = state.settings.has("at");
  $("pause").setAttribute("aria-pressed", isPaused);
  $("pause").textContent = isPaused ? "Resume" : "Pause";
  select($("range"), RANGES, chartRange());
  select($("kind"), current.windows.map((each) => [windowKey(each), windowName(each)]), windowKey(of));
  $("attribute-box").hidden = current.attributes.length < 2;
  select($("attribute"), current.attributes.map((each) => [each.name ?? "", each.name ?? ""]), attribute.name ?? "");
  swap($("methods"), current.methods.map((each) => radio(each)), current.methods.join());
  for (const input of $("methods").querySelectorAll("input")) input.checked = input.value === method;
  $("provisional").checked = filling;
}

/** Lists the queries if there is a choice. `current` is the name of the visible query, or null. */
function list(current) {
  const names = state.queries.map((each) => each.name);
  $("choice").hidden = names.every((each) => each === current);
  $("find-query").hidden = names.length <= FEW;
  const search = $("find-query").value.toLowerCase();
  const matches = names.filter((each) => each === current || each.toLowerCase().includes(search));
  const from = prefixLength(names);
  swap($("queries"), matches.map((each) => tab(each, each === current, from)), JSON.stringify([matches, from, current]), reveal);
}

function swap(box, children, key, then = () => {}) {
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  box.replaceChildren(...children);
  then(box);
}

/** Scrolls only this list, to its current entry. */
function reveal(box) {
  const current = box.querySelector("[aria-current]");
  if (current) box.scrollTop = current.offsetTop - box.offsetTop - box.clientHeight / 2;
}

function tab(name, current, from) {
  const click = (event) => {
    event.preventDefault();
    state.all = false;
    $("find").value = "";
    choose({ q: name, value: null, attribute: null, window: null, method: null, at: null });
  };
  return element("a", { href: `#${new URLSearchParams({ q: name })}`, "aria-current": current ? "page" : null, title: name, "aria-label": name, onclick: click }, ends(name.slice(from)));
}

function radio(method) {
  const title = method === "unbiased" ? "Unbiased: correct on average, may be negative" : "Consistent: shares from 0 to 100% that fit together";
  const input = element("input", { type: "radio", name: "method", value: method, onchange: () => choose({ method }) });
  return element("label", { title }, input, method);
}

function select(box, options, value) {
  swap(box, options.map(([value, text]) => element("option", { value }, text)), JSON.stringify(options));
  box.value = value;
}

function empty(text, ...more) {
  $("empty").replaceChildren(text, ...more);
  for (const [id, visible] of [["empty", true], ["board", false], ["token", false]]) $(id).hidden = !visible;
}

function askForToken() {
  for (const [id, visible] of [["empty", false], ["board", false], ["token", true]]) $(id).hidden = !visible;
  line("lost", "A token is needed");
  $("token-wrong").textContent = sessionStorage.length ? "This token is wrong." : "";
  $("token-text").focus();
}

function line(kind, text) {
  if ($("status").dataset.state !== kind) $("status").dataset.state = kind;
  if ($("status-text").textContent !== text) $("status-text").textContent = text;
}

const now = () => Date.now() / 1000 + state.ahead;

/** Shows the age of the numbers, once there are any. */
function status() {
  if (state.problem || !state.ready || !state.queries.length) return;
  const { state: kind, text, hint } = currentStatus();
  line(kind, text);
  const notice = state.notice ? `The board shows what it can read: ${state.notice}.` : "";
  const lines = [notice, hint].filter(Boolean).join(" ");
  if ($("late").textContent !== lines) $("late").textContent = lines;
}

function currentStatus() {
  if (isUnknownQuery()) return { state: "starting", text: "No such query", hint: "" };
  if (!state.settings.has("at")) return freshness(kind(), query(), now());
  const at = Number(state.settings.get("at"));
  return { state: "ended", text: Number.isInteger(at) ? `Paused at ${moment(at)}` : "No such window", hint: "" };
}

const NO_BROKER = "These numbers are old, because the board gets no new records. Check the brokers first, then /readyz of this board.";

function lost(reason, hint = "") {
  state.problem = reason;
  $("late").textContent = hint;
  line("lost", `${reason}. ${state.at ? `Stale since ${clock(state.at)}; reconnecting` : "Reconnecting"}`);
}

/** Drops the alerts that a new alert changes; returns whether the page shows them. */
function applyAlert({ query: name }) {
  answers.forget(`alerts ${name}`);
  return name === query()?.name;
}

/** Drops the answers that a new record changes; returns whether the page shows them. */
function applyRecord({ query: name, window: span, final }) {
  const match = state.queries.find((each) => each.name === name);
  const entry = match?.windows.find((each) => windowKey(each) === windowKey(span));
  if (!entry) {
    answers.forget("queries");
    return true;
  }
  if (final && span.end > (entry.latest ?? 0)) entry.latest = span.end;
  answers.forget(subject(name, span, final));
  return name === query().name && [kind(), rateKind()].some((each) => windowKey(each) === windowKey(span));
}

const on = {
  event(name, data) {
    const oldProblem = state.problem;
    if (name === "state") return;
    if (name !== "beat") {
      const isVisible = name === "alert" ? applyAlert(data) : applyRecord(data);
      if (state.settings.has("at")) return;
      if (name === "alert") alerts.notify(data);
      if (isVisible) refresh();
      return;
    }
    state.notice = data.notice;
    if (data.now - state.listTime > LIST_SECONDS) {
      answers.forget("queries");
      state.listTime = data.now;
    }
    if (data.problem) return lost(data.problem, NO_BROKER);
    if (!data.ready) return line("starting", "The board is reading the topics");
    state.problem = null;
    state.at = Date.now() / 1000;
    state.ahead = data.now - state.at;
    if (oldProblem || !state.ready) {
      answers.clear();
      refresh();
    }
    state.ready = true;
    status();
  },
  lost(reason) {
    state.ready = false;
    lost(reason);
  },
  refused: askForToken,
};

$("kind").addEventListener("change", (event) => choose({ window: event.target.value, at: null }));
$("range").addEventListener("change", (event) => choose({ range: event.target.value || null }));
$("find").addEventListener("input", refresh);
$("find-query").addEventListener("input", refresh);
$("pause").addEventListener("click", () => choose(state.settings.has("at") ? { at: null } : { q: query().name, window: windowKey(kind()), at: state.end }));
$("export").addEventListener("click", async () => {
  const [path, parameters, name] = state.download;
  const blob = await table(path, parameters).catch(failed);
  if (!blob) return;
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
});
$("attribute").addEventListener("change", (event) => choose({ attribute: event.target.value, value: null }));
$("provisional").addEventListener("change", (event) => choose({ filling: event.target.checked ? "1" : null }));
$("more").addEventListener("click", () => {
  state.all = !state.all;
  refresh();
});
$("token").addEventListener("submit", (event) => {
  event.preventDefault();
  remember($("token-text").value);
  listen(on);
});
window.addEventListener("hashchange", () => {
  state.settings = new URLSearchParams(location.hash.slice(1));
  refresh();
});
setInterval(status, 1000);
listen(on);
