// The page: what is chosen stands in the address, what is new is asked for when an event says so.

import { ApiError, listen, remember, table } from "./api.js";
import { Alerts } from "./alerts.js";
import { Answers } from "./answers.js";
import { History, Rates } from "./charts.js";
import { clock, count, digits, duration, element, ends, moment, percent, shared, windowName } from "./format.js";
import { freshness, spaced } from "./freshness.js";
import { Ranking } from "./ranking.js";
import { tiles } from "./tiles.js";
import { flag, flags, forged, privacy, threshold } from "./words.js";

const SHOWN = 15;
const FEW = 8; // queries that need no search
const ALL = 10_000;
const WAIT = 150; // milliseconds in which events are gathered
const AGAIN = 60; // seconds until queries are listed again: that one is retired brings no event
const RANGES = [["", "all that is kept"], ["900", "15 min"], ["3600", "1 h"], ["21600", "6 h"], ["86400", "1 d"]];
const $ = (id) => document.getElementById(id);

const state = { since: Date.now() / 1000, queries: [], chosen: new URLSearchParams(location.hash.slice(1)), all: false, ready: false, at: null, ahead: 0, listed: 0 };
const answers = new Answers();
const ranking = new Ranking($("rows"), $("axis"), (value) => choose({ value }));
const history = new History($("history"));
const rates = new Rates($("rates"));
const alerts = new Alerts($("alerts"), $("news"));

const query = () => state.queries.find((each) => each.name === state.chosen.get("q")) ?? state.queries[0];

/** Whether the address names a query that is not there. */
const stranger = () => state.chosen.has("q") && query().name !== state.chosen.get("q");

function kind() {
  const windows = query().windows;
  return windows.find((each) => windowKey(each) === state.chosen.get("window")) ?? windows[0];
}

/** How many seconds the charts go back; empty for all that is kept. */
const reach = () => RANGES.find(([seconds]) => seconds === state.chosen.get("range"))?.[0] ?? "";

/** The kind of window that reports a second are shown by. */
const finest = () => query().windows.find((each) => each.kind === "tumbling") ?? kind();

/** What an event says has changed: the finals of a query's windows of a kind, or what is known of the next. */
const subject = (name, window, final) => `${name} ${windowKey(window)} ${final}`;

const windowKey = ({ kind, size, step }) => `${kind}-${size}-${step}`;

/** Puts a choice into the address, and shows what it leads to. */
function choose(changes) {
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) state.chosen.delete(key);
    else state.chosen.set(key, value);
  }
  window.history.replaceState(null, "", `#${state.chosen}`);
  refresh();
}

let timer = null;
let running = null;

/** Soon, and never two at a time. */
function refresh() {
  timer ??= setTimeout(async () => {
    await running;
    timer = null;
    running = show().catch(failed);
  }, WAIT);
}

function failed(error) {
  if (error instanceof ApiError && error.status === 401) return askForToken();
  if (error instanceof ApiError) return empty(error.message, ...(state.chosen.has("at") ? [newest()] : []));
  lost("The connection is lost");
}

async function show() {
  state.queries = (await answers.get(["queries"], "queries")).queries;
  if (!state.queries.length) return empty("No query is counted yet.");
  if (stranger()) {
    list(null);
    return empty(`There is no query ${state.chosen.get("q")} here.`);
  }
  const asked = { ...query() };
  const name = encodeURIComponent(asked.name);
  const { kind: form, size, step } = kind();
  const of = { kind: form, size, step };
  const attribute = asked.attributes.find((each) => each.name === state.chosen.get("attribute")) ?? asked.attributes[0];
  const wanted = state.chosen.get("method");
  const method = asked.methods.includes(wanted) ? wanted : asked.methods[0]; // unbiased: its interval stands beside it
  const filling = state.chosen.get("filling") === "1";
  const about = { ...of, method, attribute: attribute.name };
  const at = state.chosen.get("at"); // paused: the window that ends then
  const sought = $("find").value.toLowerCase();
  const top = state.all || sought ? ALL : SHOWN;
  const estimate = await estimated(name, { ...about, top, window: at }, filling && !at);
  controls(asked, attribute, method, filling, of);
  if (!estimate && at) return empty(`The window of ${asked.name} that ended at ${moment(Number(at))} is not kept here.`, newest());
  if (!estimate) return empty(`No window of ${asked.name} is final yet: its first reports are waited for since ${clock(state.since)}. A window of ${windowName(of)} is final ${duration(asked.lateness)} after its end.`);
  const seen = { window: estimate.window.end, provisional: !estimate.final };
  const named = [asked.name, attribute.name, windowKey(of), seen.window, method].filter((each) => each !== null).join("-");
  state.exported = [`queries/${name}/estimate`, { ...about, ...seen, top: ALL }, `${named}.csv`];
  const value = state.chosen.get("value") ?? estimate.values[0]?.value;
  const fine = finest();
  const range = Number(reach());
  const span = { to: at && Number(at) + 1, ...(range ? { from: Math.max(0, estimate.window.end - range), limit: ALL } : {}) };
  const [points, windows, changed] = await Promise.all([
    answers.get([subject(asked.name, of, true)], `queries/${name}/history`, { ...about, value, ...span }).catch((error) => ifGone(error, { points: [] })),
    answers.get([subject(asked.name, fine, true)], `queries/${name}/windows`, { kind: fine.kind, size: fine.size, step: fine.step, limit: 200, ...span }),
    answers.get([`alerts ${asked.name}`], "alerts", { query: asked.name, attribute: attribute.name, limit: 50 }),
  ]);
  alerts.show(at ? changed.alerts.filter((each) => each.window.end <= at) : changed.alerts);
  const found = sought ? estimate.values.filter((each) => each.value.toLowerCase().includes(sought)) : estimate.values;
  state.end = estimate.window.end;
  numbers(asked, { ...estimate, values: found }, value, windows.windows);
  past(value, points.points, asked.simulated, of.step || asked.pane); // windows from the start end with each pane
  speed(windows.windows);
  status();
  $("privacy").replaceChildren(...privacy(asked));
  for (const [id, visible] of [["empty", false], ["token", false], ["board", true]]) {
    $(id).hidden = !visible;
  }
}

/** The way out of a link to a window that is gone. */
const newest = () => element("button", { type: "button", onclick: () => choose({ at: null }) }, "Show the newest");

const ifGone = (error, instead) => {
  if (error instanceof ApiError && error.status === 404) return instead;
  throw error;
};

/** The window that is wanted; while none is final, what is known of the first. */
async function estimated(name, about, filling) {
  const ask = (provisional) => {
    const subjects = [true, ...(provisional ? [false] : [])].map((final) => subject(query().name, about, final));
    return answers.get(subjects, `queries/${name}/estimate`, { ...about, provisional }).catch((error) => ifGone(error, null));
  };
  return (await ask(filling)) ?? (await ask(true));
}

function numbers(asked, said, value, windows) {
  const { start, end } = said.window;
  const name = said.final ? "Window" : "Still filling: the window";
  $("window").textContent = `${name} from ${moment(start)} to ${clock(end)}, ${count(said.n)} reports`;
  $("caption").textContent = `The most frequent values of ${asked.name}, by ${said.method}`;
  $("board").classList.toggle("plain", !said.error);
  $("tiles").replaceChildren(...tiles(said, windows));
  $("flags").replaceChildren(...flags(said).map((each) => element("li", { class: forged(each) ? "forged" : null }, flag(each))));
  ranking.show(said, value, alerts.recent(said.attribute, end));
  $("legend-bar").textContent = said.method === "unbiased" ? "unbiased estimate" : `consistent estimate (${said.method})`;
  $("legend-threshold").hidden = said.threshold === null;
  if (said.threshold !== null) $("threshold-text").textContent = threshold(asked, said.threshold);
  const more = $("more");
  document.querySelector(".scroll").classList.toggle("long", said.values.length > SHOWN);
  more.hidden = said.published <= SHOWN || $("find").value !== "";
  more.textContent = state.all ? `Show the first ${SHOWN}` : `Show all ${count(said.published)} published`;
  status();
}

const UNKNOWN = { n: 0, share: null, low: null, high: null, truth: null, duplicate: 0, implausible: 0 };
const empty_at = (end) => ({ ...UNKNOWN, start: end, end });

function past(value, points, simulated, step) {
  const known = points.filter((point) => point.share !== null);
  const last = known.at(-1);
  const places = last ? digits((last.high - last.low) / 4) : 2;
  $("history-text").textContent = last
    ? `${value}: ${percent(last.share, places)} (${percent(last.low, places)} to ${percent(last.high, places)}) at ${clock(last.end)}` +
      (simulated && last.truth !== null ? `, in truth ${percent(last.truth, places)}` : "")
    : `${value}: not among the published values`;
  const filled = spaced(points, step, now(), empty_at);
  const column = (key) => filled.map((point) => point[key]);
  history.show([column("end"), column("low"), column("high"), column("share"), column("truth")], value);
}

function speed(windows) {
  const seconds = (each) => Math.max(each.end - each.start, 1);
  const lost = (each) => each.duplicate + each.implausible;
  const filled = spaced(windows, windows[0]?.step, now(), empty_at);
  const column = (number) => filled.map((each) => (each.missing ? null : number(each) / seconds(each)));
  rates.show([filled.map((each) => each.end), column((each) => each.n), column(lost)]);
  const last = windows.at(-1);
  const length = last ? windowName(last) : "";
  $("rates-text").textContent = last ? `${count(Math.round(last.n / seconds(last)))} a second in the last window (${length})` : "";
  const total = (key) => windows.reduce((sum, each) => sum + each[key], 0);
  const rows = [
    [`Counted in ${count(windows.length)} windows`, total("n")],
    ["Refused: sent twice", total("duplicate")],
    ["Refused: no honest client sends such noise", total("implausible")],
  ];
  $("refused").replaceChildren(...rows.flatMap(([name, number]) => [element("dt", {}, name), element("dd", {}, count(number))]));
}

/** Fills what can be chosen, without touching what has not changed. */
function controls(asked, attribute, method, filling, of) {
  document.title = `${asked.name} · hubbub`;
  list(asked.name);
  const paused = state.chosen.has("at");
  $("pause").setAttribute("aria-pressed", paused);
  $("pause").textContent = paused ? "Go on" : "Pause";
  select($("range"), RANGES, reach());
  select($("kind"), asked.windows.map((each) => [windowKey(each), windowName(each)]), windowKey(of));
  $("attribute-box").hidden = asked.attributes.length < 2;
  select($("attribute"), asked.attributes.map((each) => [each.name ?? "", each.name ?? ""]), attribute.name ?? "");
  swap($("methods"), asked.methods.map((each) => radio(each)), asked.methods.join());
  for (const input of $("methods").querySelectorAll("input")) input.checked = input.value === method;
  $("provisional").checked = filling;
}

/** Lists the queries that can be chosen, where there is a choice; null is none of them. */
function list(chosen) {
  const names = state.queries.map((each) => each.name);
  $("choice").hidden = names.every((each) => each === chosen);
  $("find-query").hidden = names.length <= FEW;
  const wanted = $("find-query").value.toLowerCase();
  const found = names.filter((each) => each === chosen || each.toLowerCase().includes(wanted));
  const from = shared(names);
  swap($("queries"), found.map((each) => tab(each, each === chosen, from)), JSON.stringify([found, from, chosen]), reveal);
}

function swap(box, children, key, then = () => {}) {
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  box.replaceChildren(...children);
  then(box);
}

/** Scrolls a list, and nothing else, to what is chosen of it. */
function reveal(box) {
  const chosen = box.querySelector("[aria-current]");
  if (chosen) box.scrollTop = chosen.offsetTop - box.offsetTop - box.clientHeight / 2;
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
  const title = method === "unbiased" ? "As counted: right on average, may be negative" : "Made consistent: shares that make sense together";
  const input = element("input", { type: "radio", name: "method", value: method, onchange: () => choose({ method }) });
  return element("label", { title }, input, method);
}

function select(box, options, chosen) {
  swap(box, options.map(([value, text]) => element("option", { value }, text)), JSON.stringify(options));
  box.value = chosen;
}

function empty(text, ...more) {
  $("empty").replaceChildren(text, ...more);
  for (const [id, visible] of [["empty", true], ["board", false], ["token", false]]) $(id).hidden = !visible;
}

function askForToken() {
  for (const [id, visible] of [["empty", false], ["board", false], ["token", true]]) $(id).hidden = !visible;
  line("lost", "A token is needed");
  $("token-wrong").textContent = sessionStorage.length ? "That was not it." : "";
  $("token-text").focus();
}

function line(kind, text) {
  if ($("status").dataset.state !== kind) $("status").dataset.state = kind;
  if ($("status-text").textContent !== text) $("status-text").textContent = text;
}

const now = () => Date.now() / 1000 + state.ahead;

/** Says how new the numbers are, once they are. */
function status() {
  if (state.problem || !state.ready || !state.queries.length) return;
  const { state: kept, text, hint } = standing();
  line(kept, text);
  if ($("late").textContent !== hint) $("late").textContent = hint;
}

function standing() {
  if (stranger()) return { state: "starting", text: "No such query", hint: "" };
  if (!state.chosen.has("at")) return freshness(kind(), query(), now());
  const at = Number(state.chosen.get("at"));
  return { state: "ended", text: Number.isInteger(at) ? `Paused at ${moment(at)}` : "No such window", hint: "" };
}

const SILENT = "What stands here is what was known before; whether reports go on being counted cannot be seen from here. Look at the brokers, then at this board's /readyz.";

function lost(reason, hint = "") {
  state.problem = reason;
  $("late").textContent = hint;
  line("lost", `${reason}. ${state.at ? `Stale since ${clock(state.at)}; trying again` : "Trying again"}`);
}

/** Forgets the alerts that it joins; whether they are shown. */
function heardAlert({ query: name }) {
  answers.forget(`alerts ${name}`);
  return name === query()?.name;
}

/** Forgets what a record has made old; whether any of it is shown. */
function heardRecord({ query: name, window: span, final }) {
  const of = state.queries.find((each) => each.name === name);
  const kept = of?.windows.find((each) => windowKey(each) === windowKey(span));
  if (!kept) {
    answers.forget("queries");
    return true;
  }
  if (final && span.end > (kept.latest ?? 0)) kept.latest = span.end;
  answers.forget(subject(name, span, final));
  return name === query().name && [kind(), finest()].some((each) => windowKey(each) === windowKey(span));
}

const on = {
  event(name, said) {
    const before = state.problem;
    if (name !== "beat") {
      const seen = name === "alert" ? heardAlert(said) : heardRecord(said);
      if (state.chosen.has("at")) return;
      if (name === "alert") alerts.tell(said);
      if (seen) refresh();
      return;
    }
    if (said.now - state.listed > AGAIN) {
      answers.forget("queries");
      state.listed = said.now;
    }
    if (said.problem) return lost(said.problem, SILENT);
    if (!said.ready) return line("starting", "The board is reading the topics");
    state.problem = null;
    state.at = Date.now() / 1000;
    state.ahead = said.now - state.at;
    if (before || !state.ready) {
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
$("pause").addEventListener("click", () => choose(state.chosen.has("at") ? { at: null } : { q: query().name, window: windowKey(kind()), at: state.end }));
$("export").addEventListener("click", async () => {
  const [path, parameters, name] = state.exported;
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
  state.chosen = new URLSearchParams(location.hash.slice(1));
  refresh();
});
setInterval(status, 1000);
listen(on);
