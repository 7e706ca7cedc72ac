// The page: an overview of all queries, and a page for each. The address chooses, and events trigger new requests.

import { Address } from "./address.js";
import { Answers } from "./answers.js";
import { ApiError, listen, remember } from "./api.js";
import { clock, moment } from "./format.js";
import { listenToKeys } from "./keys.js";
import { Overview } from "./overview.js";
import { QueryPage, subject, windowKey } from "./query_page.js";
import { statusOf } from "./status.js";
import { learn } from "./words.js";

const WAIT = 150; // milliseconds in which several events cause one refresh
const LIST_SECONDS = 60; // until the queries are listed again, because no event announces a new setting
const $ = (id) => document.getElementById(id);
const SECTIONS = ["overview", "board", "empty", "token"];

const state = { queries: [], rows: [], ready: false, at: null, ahead: 0, listTime: 0, isStale: false, problem: null, notice: null };
const now = () => Date.now() / 1000 + state.ahead;
const answers = new Answers();
const address = new Address(refresh);
const page = new QueryPage({ address, answers, now, empty, choose });
const overview = new Overview($("all-rows"), {
  text: $("overview-text"),
  none: $("all-none"),
  pages: $("overview-pages"),
  choose,
});

/** Whether the address is that of the overview. */
const isOverview = () => !address.has("q");
const query = () => state.queries.find((each) => each.name === address.get("q")) ?? null;

/** Writes settings into the address, and refreshes the page. */
function choose(changes) {
  address.set(changes);
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
  if (error instanceof ApiError) return empty(error.message, ...(address.has("at") ? [page.newestButton()] : []));
  lost("No connection to the board");
}

async function show() {
  path();
  learn(await answers.get([], "words"));
  if (isOverview()) return showOverview();
  state.queries = (await answers.get(["queries"], "queries")).queries;
  const current = query();
  if (current === null) return empty(`There is no query ${address.get("q")} here.`);
  if (await page.show({ ...current })) section("board");
  status();
}

async function showOverview() {
  state.rows = (await answers.get(["overview"], "overview")).queries;
  state.isStale = false;
  const search = address.get("find") ?? "";
  if (document.activeElement !== $("find-query")) $("find-query").value = search;
  overview.show(state.rows, { search, state: address.get("state"), page: Number(address.get("page")) || 0 }, now());
  section("overview");
  status();
}

/** Shows one part of the page, and hides the others. */
function section(name) {
  for (const id of SECTIONS) $(id).hidden = id !== name;
}

/** Shows the way back from a query to the overview. */
function path() {
  const name = address.get("q");
  document.title = name === null ? "hubbub" : `${name} · hubbub`;
  $("path").hidden = name === null;
  $("name").textContent = name ?? "";
}

function empty(text, ...more) {
  $("empty").replaceChildren(text, ...more);
  section("empty");
  status();
}

function askForToken() {
  section("token");
  line("lost", "A token is needed");
  $("token-wrong").textContent = sessionStorage.length ? "This token is wrong." : "";
  $("token-text").focus();
}

function line(kind, text) {
  if ($("status").dataset.state !== kind) $("status").dataset.state = kind;
  if ($("status-text").textContent !== text) $("status-text").textContent = text;
}

/** Shows the age of the numbers, once there are any. */
function status() {
  if (state.problem || !state.ready) return;
  const { state: kind, text, hint } = currentStatus();
  line(kind, text);
  const notice = state.notice ?? hint;
  if ($("late").textContent !== notice) $("late").textContent = notice;
  if (isOverview()) overview.tick(now());
}

function currentStatus() {
  if (isOverview()) return { state: "live", text: `Connected, ${clock(now())}`, hint: "" };
  const current = query();
  if (current === null) return { state: "starting", text: state.queries.length ? "No such query" : "No data yet", hint: "" };
  if (!address.has("at")) return statusOf(current, now());
  const at = Number(address.get("at"));
  return { state: "ended", text: Number.isInteger(at) ? `Paused at ${moment(at)}` : "No such window", hint: "" };
}

const NO_BROKER = "These numbers are old, because the board gets no new records. Check the brokers first, then /readyz of this board.";

function lost(reason, hint = "") {
  state.problem = reason;
  $("late").textContent = hint;
  line("lost", `${reason}. ${state.at ? `Stale since ${clock(state.at)}; reconnecting` : "Reconnecting"}`);
}

/** Drops the answers that an event changes; returns whether the page of a query shows them. */
const CHANGES = {
  alert({ query: name }) {
    answers.forget(`alerts ${name}`);
    return name === query()?.name;
  },
  record({ query: name, window: span, final, state: now }) {
    const match = state.queries.find((each) => each.name === name);
    const entry = match?.windows.find((each) => windowKey(each) === windowKey(span));
    if (!entry) {
      answers.forget("queries");
      return true;
    }
    if (final) {
      entry.latest = Math.max(span.end, entry.latest ?? 0);
      if (match.expected === null) answers.forget("queries"); // known from the first final on
      Object.assign(match, { state: now, latest: Math.max(span.end, match.latest ?? 0) });
    }
    answers.forget(subject(name, span, final));
    return match === query() && page.shows(match, span);
  },
  state({ query: name, state: now, latest, newest_report }) {
    const match = state.queries.find((each) => each.name === name);
    if (match === undefined) answers.forget("queries");
    else Object.assign(match, { state: now, latest, newest_report });
    return match === undefined;
  },
};

function beat(data) {
  const oldProblem = state.problem;
  if (data.now - state.listTime > LIST_SECONDS) {
    answers.forget("queries");
    state.listTime = data.now;
  }
  if (data.problem) return lost(data.problem, NO_BROKER);
  if (!data.ready) return line("starting", "The board is reading the topics");
  state.problem = null;
  state.notice = data.notice;
  state.at = Date.now() / 1000;
  state.ahead = data.now - state.at;
  if (oldProblem || !state.ready) {
    answers.clear();
    refresh();
  } else if (isOverview() && state.isStale) refresh();
  state.ready = true;
  status();
}

const on = {
  event(name, data) {
    if (name === "beat") return beat(data);
    const isVisible = CHANGES[name](data);
    answers.forget("overview"); // at the next beat, so that many queries cost one request
    state.isStale = true;
    if (isOverview() ? !state.rows.length : isVisible && !address.has("at")) refresh();
    if (name === "alert" && !address.has("at")) page.alerts.notify(data);
  },
  lost(reason) {
    state.ready = false;
    lost(reason);
  },
  full() {
    state.problem = null;
    state.ready = true;
    state.at = Date.now() / 1000;
    answers.clear();
    refresh();
  },
  refused: askForToken,
};

// A link to others has the token that it needs. It is not sent with the address, and leaves the address at once.
if (address.has("token")) {
  remember(address.get("token"));
  address.set({ token: null });
}

$("skip").addEventListener("click", () => $("main").focus());
$("kind").addEventListener("change", (event) => choose({ window: event.target.value, at: null, from: null }));
$("find").addEventListener("input", (event) => choose({ find: event.target.value || null }));
$("find-query").addEventListener("input", (event) => choose({ find: event.target.value || null, page: null }));
$("compare").addEventListener("change", ({ target }) => choose(target.value === "from" ? {} : { compare: target.value || null, from: null }));
$("with").addEventListener("change", (event) => choose({ with: event.target.value || null }));
$("pause").addEventListener("click", () => page.pause(query()));
$("export").addEventListener("click", () => page.download().catch(failed));
$("export-json").addEventListener("click", () => page.saveSeen());
for (const id of ["history", "rates"]) $(`${id}-picture`).addEventListener("click", () => page.savePicture(id));
$("attribute").addEventListener("change", (event) => choose({ attribute: event.target.value, value: null, with: null, given: null }));
$("group").addEventListener("change", (event) => choose({ group: event.target.value || null, compare: null, from: null }));
$("provisional").addEventListener("change", (event) => choose({ filling: event.target.checked ? "1" : null }));
$("more").addEventListener("click", () => choose({ all: address.has("all") ? null : "1" }));
$("token").addEventListener("submit", (event) => {
  event.preventDefault();
  remember($("token-text").value);
  listen(on);
});
listenToKeys();
setInterval(status, 1000);
listen(on);
