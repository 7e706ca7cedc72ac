// The page on which the viewer is a device: in a demo with a gateway and a board, or alone with a simulated crowd.

import { count } from "../format.js";
import { randomBytes } from "./entropy.js";
import { encodeFrame } from "./frame.js";
import { RandomisedResponse } from "./grr.js";
import { definition, LiveBoard } from "./live.js";
import { SimulatedBoard } from "./simulation.js";
import { markAnswer, node, showAnswers, showBoard, showFrame, showManyTosses, showNothing, showObserver, showTosses, showTries } from "./views.js";

const MANY = 1000; // people who answer at once
const BEAT = 1000; // milliseconds between two looks at the board
const setting = JSON.parse(node("setting").textContent);
const isSimulated = setting.definitions !== undefined;

let device = null; // the query, its oracle and its board
let tries = [];
let last = null; // the last report, for the observer

function open(query) {
  const oracle = new RandomisedResponse(query.domain.length, query.thresholds.T);
  const board = isSimulated ? new SimulatedBoard(query, oracle, setting.weights) : new LiveBoard(query);
  device = { ...query, query, oracle, board };
  [tries, last] = [[], null];
  showNothing();
  showAnswers(query.domain, choose);
  node("question-text").textContent = setting.question;
  node("before").value = Math.round(100 / query.domain.length);
  look();
}

/** Answers for one person or for many. Each of them is a new person with new noise. */
async function choose(value) {
  const { domain, query, oracle, board } = device;
  const people = Number(document.querySelector("#people :checked").value);
  const answers = Array.from({ length: people }, () => oracle.answer(value, randomBytes));
  const reports = answers.map((answer) => answer.report);
  const pane = Math.floor(Date.now() / 1000 / query.pane) * query.pane;
  const frame = encodeFrame({
    digest: query.digest,
    pane,
    width: query.width,
    reports: Uint8Array.from(reports.flatMap((each) => [...oracle.encode(each)])),
  });
  markAnswer(value);
  last = { report: reports[0], people };
  if (people === 1) {
    tries.push(answers[0].tosses.truth.kept);
    showTosses(device, value, answers[0]);
  } else showManyTosses(device, value, reports);
  showTries(tries);
  showObserver(device, last, node("before").value / 100);
  node("stage").dataset.answered = "yes";
  restart(node("stage"), "sends");
  try {
    const { note } = await board.send({ frame, pane, values: Array(people).fill(value) });
    showFrame(device, frame, note);
    say(
      people === 1
        ? `Your device reports ${domain[reports[0]]}. ${frame.length} bytes have left your browser.`
        : `${count(people)} reports have left your browser.`,
    );
  } catch (error) {
    showFrame(device, frame, error.message);
    say(error.message);
  }
  if (isSimulated) look();
}

/** Starts an animation again. */
function restart(target, name) {
  target.classList.remove(name);
  void target.offsetWidth;
  target.classList.add(name);
}

const say = (text) => (node("news").textContent = text);

async function look() {
  const { board } = device;
  const answer = await board.read().catch(() => null);
  if (answer === null || board !== device.board) return;
  const most = Math.max(...answer.values.map((row) => Math.max(row.high, row.truth ?? 0)));
  showBoard(device, answer, Math.min(1, Math.ceil(10 * most) / 10));
  setTimeout(() => node("own").classList.remove("moved"), 0.9 * BEAT);
  const noise = (100 * device.oracle.q).toFixed(1);
  node("board-note").textContent =
    `The noise alone lets ${noise}% of all reports name any one answer. The board subtracts it, and the rest shows the shares of the people.`;
  node("hint").textContent = hint(answer);
}

/** Returns a suggestion for the next step. */
function hint({ own }) {
  if (own === 0) return "Choose an answer, and watch the number of reports.";
  if (own < MANY) return "Your report moves no share beyond its interval, so it hides in the crowd. Now answer as 1,000 people.";
  return "One report hides a person, and many show the crowd. This is local privacy.";
}

function chooseEpsilon() {
  const box = node("epsilons");
  box.hidden = setting.definitions.length < 2;
  for (const query of setting.definitions) {
    const label = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "radio", name: "epsilon", checked: query.epsilon === setting.epsilon });
    input.addEventListener("change", () => open(query));
    label.append(input, ` ${query.epsilon}`);
    box.append(label);
  }
}

async function start() {
  const mode = node("mode");
  node("footer").textContent = isSimulated
    ? "The crowd of this page is simulated in your browser, and the page sends nothing. The arithmetic is that of hubbub's clients."
    : "Gateway, broker, worker and board run on this machine. Each choice is the answer of a new person. " +
      "A real device answers once in a period, and repeats its noise.";
  if (isSimulated) {
    node("mode-text").textContent = "Simulated crowd, no server";
    chooseEpsilon();
    open(setting.definitions.find((query) => query.epsilon === setting.epsilon));
  } else {
    const query = await definition(setting.query).catch(() => null);
    if (query === null) return setTimeout(start, BEAT);
    mode.dataset.state = "live";
    node("mode-text").replaceChildren("Live: ", Object.assign(document.createElement("a"), { href: setting.board, textContent: "the whole board" }));
    open(query);
  }
  setInterval(look, BEAT);
}

node("skip").addEventListener("click", () => node("answers").querySelector("button")?.focus());
node("before").addEventListener("input", (event) => showObserver(device, last, event.target.value / 100));
start();
