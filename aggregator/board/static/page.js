// The page: what is chosen stands in the address, what is new is asked for when an event says so.

import { ApiError, get, listen, remember } from "./api.js";
import { Alerts } from "./alerts.js";
import { History, Rates } from "./charts.js";
import { clock, count, digits, element, moment, percent, windowName } from "./format.js";
import { Ranking } from "./ranking.js";
import { tiles } from "./tiles.js";
import { flag, flags, privacy, threshold } from "./words.js";

const SHOWN = 15;
const ALL = 10_000;
const WAIT = 150; // milliseconds in which events are gathered
const $ = (id) => document.getElementById(id);

const state = { queries: [], chosen: new URLSearchParams(location.hash.slice(1)), all: false, ready: false, at: null };
const ranking = new Ranking($("rows"), $("axis"), (value) => choose({ value }));
const history = new History($("history"));
const rates = new Rates($("rates"));
const alerts = new Alerts($("alerts"), $("news"));

const query = () => state.queries.find((each) => each.name === state.chosen.get("q")) ?? state.queries[0];

function kind() {
  const windows = query().windows;
  return windows.find((each) => windowKey(each) === state.chosen.get("window")) ?? windows[0];
}

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
  if (error instanceof ApiError) return empty(error.message);
  lost("The connection is lost");
}

async function show() {
  state.queries = (await get("queries")).queries;
  if (!state.queries.length) return empty("No query is counted yet.");
  const asked = { ...query() };
  const name = encodeURIComponent(asked.name);
  const { kind: form, size, step } = kind();
  const of = { kind: form, size, step };
  const attribute = asked.attributes.find((each) => each.name === state.chosen.get("attribute")) ?? asked.attributes[0];
  const wanted = state.chosen.get("method");
  const method = asked.methods.includes(wanted) ? wanted : (asked.methods[1] ?? asked.methods[0]);
  const filling = state.chosen.get("filling") === "1";
  const about = { ...of, method, attribute: attribute.name };
  const estimate = await estimated(name, { ...about, top: state.all ? ALL : SHOWN }, filling);
  controls(asked, attribute, method, filling, of);
  if (!estimate) return empty("No reports yet: the first window is waited for.");
  const value = state.chosen.get("value") ?? estimate.values[0]?.value;
  const finest = asked.windows.find((each) => each.kind === "tumbling") ?? of;
  const [points, windows, changed] = await Promise.all([
    get(`queries/${name}/history`, { ...about, value }).catch((error) => ifGone(error, { points: [] })),
    get(`queries/${name}/windows`, { kind: finest.kind, size: finest.size, step: finest.step, limit: 200 }),
    get("alerts", { query: asked.name, attribute: attribute.name, limit: 50 }),
  ]);
  alerts.show(changed.alerts);
  numbers(asked, estimate, value, windows.windows);
  past(value, points.points, asked.simulated);
  speed(windows.windows);
  $("privacy").replaceChildren(...privacy(asked));
  for (const [id, visible] of [["empty", false], ["token", false], ["board", true], ["queries", state.queries.length > 1]]) {
    $(id).hidden = !visible;
  }
}

const ifGone = (error, instead) => {
  if (error instanceof ApiError && error.status === 404) return instead;
  throw error;
};

/** The window that is wanted; while none is final, what is known of the first. */
async function estimated(name, about, filling) {
  const first = await get(`queries/${name}/estimate`, { ...about, provisional: filling }).catch((error) => ifGone(error, null));
  return first ?? (await get(`queries/${name}/estimate`, { ...about, provisional: true }).catch((error) => ifGone(error, null)));
}

function numbers(asked, said, value, windows) {
  const { start, end } = said.window;
  const name = said.final ? "Window" : "Still filling: the window";
  $("window").textContent = `${name} from ${moment(start)} to ${clock(end)}, ${count(said.n)} reports`;
  $("caption").textContent = `The most frequent values of ${asked.name}, by ${said.method}`;
  $("board").classList.toggle("plain", !said.error);
  $("tiles").replaceChildren(...tiles(said, windows));
  $("flags").replaceChildren(...flags(said).map((each) => element("li", {}, flag(each))));
  ranking.show(said, value, alerts.recent(said.attribute, end));
  $("legend-bar").textContent = said.method === "unbiased" ? "unbiased estimate" : `consistent estimate (${said.method})`;
  $("legend-threshold").hidden = said.threshold === null;
  if (said.threshold !== null) $("threshold-text").textContent = threshold(asked, said.threshold);
  const more = $("more");
  more.hidden = said.published <= SHOWN;
  more.textContent = state.all ? `Show the first ${SHOWN}` : `Show all ${count(said.published)} published`;
  state.end = end;
  status();
}

function past(value, points, simulated) {
  const known = points.filter((point) => point.share !== null);
  const last = known.at(-1);
  const places = last ? digits((last.high - last.low) / 4) : 2;
  $("history-text").textContent = last
    ? `${value}: ${percent(last.share, places)} (${percent(last.low, places)} to ${percent(last.high, places)}) at ${clock(last.end)}` +
      (simulated && last.truth !== null ? `, in truth ${percent(last.truth, places)}` : "")
    : `${value}: not among the published values`;
  const column = (key) => points.map((point) => point[key]);
  history.show([column("end"), column("low"), column("high"), column("share"), column("truth")], value);
}

function speed(windows) {
  const seconds = (each) => Math.max(each.end - each.start, 1);
  const lost = (each) => each.duplicate + each.implausible;
  const column = (number) => windows.map((each) => number(each) / seconds(each));
  rates.show([windows.map((each) => each.end), column((each) => each.n), column(lost)]);
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
  const tabs = state.queries.map((each) => tab(each.name, each.name === asked.name));
  swap($("queries"), tabs, state.queries.map((each) => each.name).join() + asked.name);
  select($("kind"), asked.windows.map((each) => [windowKey(each), windowName(each)]), windowKey(of));
  $("attribute-box").hidden = asked.attributes.length < 2;
  select($("attribute"), asked.attributes.map((each) => [each.name ?? "", each.name ?? ""]), attribute.name ?? "");
  swap($("methods"), asked.methods.map((each) => radio(each)), asked.methods.join());
  for (const input of $("methods").querySelectorAll("input")) input.checked = input.value === method;
  $("provisional").checked = filling;
}

function swap(box, children, key) {
  if (box.dataset.key !== key) box.replaceChildren(...children);
  box.dataset.key = key;
}

function tab(name, current) {
  const click = (event) => {
    event.preventDefault();
    state.all = false;
    choose({ q: name, value: null, attribute: null, window: null, method: null });
  };
  return element("a", { href: `#${new URLSearchParams({ q: name })}`, "aria-current": current ? "page" : null, onclick: click }, name);
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

function empty(text) {
  $("empty").textContent = text;
  for (const [id, visible] of [["empty", true], ["board", false], ["token", false]]) $(id).hidden = !visible;
}

function askForToken() {
  for (const [id, visible] of [["empty", false], ["board", false], ["token", true]]) $(id).hidden = !visible;
  line("stale", "A token is needed");
  $("token-wrong").textContent = sessionStorage.length ? "That was not it." : "";
  $("token-text").focus();
}

function line(kind, text) {
  if ($("status").dataset.state !== kind) $("status").dataset.state = kind;
  if ($("status-text").textContent !== text) $("status-text").textContent = text;
}

/** Says how new the numbers are, once they are. */
function status() {
  if (state.problem) return;
  line("live", state.end ? `Live, to ${clock(state.end)}` : "Live");
}

function lost(reason) {
  state.problem = reason;
  line("stale", `${reason}. ${state.at ? `Stale since ${clock(state.at)}; trying again` : "Trying again"}`);
}

const on = {
  event(name, said) {
    const before = state.problem;
    if (name !== "beat") {
      if (name === "alert") alerts.tell(said);
      if (name === "alert" || said.query === query()?.name || !state.queries.some((each) => each.name === said.query)) refresh();
      return;
    }
    if (said.problem) return lost(said.problem);
    if (!said.ready) return line("starting", "The board is reading the topics");
    state.problem = null;
    state.at = Date.now() / 1000;
    if (before || !state.ready) refresh();
    state.ready = true;
    status();
  },
  lost(reason) {
    state.ready = false;
    lost(reason);
  },
  refused: askForToken,
};

$("kind").addEventListener("change", (event) => choose({ window: event.target.value }));
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
listen(on);
