// The texts of flags, privacy, thresholds and alerts.

import { clock, count, duration, element, moment, percent } from "./format.js";

let table = new Map();

/** Takes the texts of flags and alerts that the board sends. */
export const learn = ({ words }) => {
  table = new Map(words.map((word) => [word.name, word]));
};

const word = (name) => table.get(name) ?? { about: null, text: name, plural: name, tag: name };

const isReason = (name) => word(name).about === "withheld";

/** Returns a flag as a sentence. */
export const flag = (name) => word(name).text;

/** Returns why windows have no values. */
export const withheld = (reason, { crowd }) => word(reason).text.replace("{crowd}", count(crowd));

/** Returns the flag that says why a window has no values, if it has none. */
export const reason = (flags) => flags.find(isReason) ?? null;

/** Returns a sentence about the withheld windows after an estimate, or about its own. Empty if there are none. */
export function gap(estimate, query, isPaused) {
  const { withheld_since: since, withheld_reason: cause } = estimate;
  if (cause === null || (isPaused && reason(estimate.quality.flags) === null)) return "";
  const text = withheld(cause, query);
  if (reason(estimate.quality.flags) === null) return `Windows since ${moment(since)} are ${text}. Below is the newest window with values.`;
  if (isPaused) return `This window is ${text}.`;
  const longer = query.windows.length > 1 ? " Another kind of window may have some." : "";
  return `All windows since ${moment(since)} are ${text}. No window of this kind has values.${longer}`;
}

/** Whether a flag points to an attack. */
export const forged = (name) => name === "skewed" || name === "impossible";

/** Returns the flags that concern the visible method, except for the reason why a window is withheld. */
export const flags = ({ method, quality }) =>
  quality.flags.filter((name) => !isReason(name) && (name !== "prior_rejected" || method.startsWith("calibrate")));

const SOLUTIONS = {
  spl: "a report answers every attribute with an equal part of epsilon",
  smp: "a report answers one attribute, drawn at random, with all of epsilon",
  rsfd: "a report answers one attribute, drawn at random; its other answers are fake",
};

const period = (query) => (query.renew === null ? "ever sends" : `sends in ${duration(query.renew)}`);

const REPEATS = {
  life: (query) =>
    `It repeats the same noise for the same answer. Everything that it ${period(query)} is charged ` +
    `${number(query.record_charge)}, however often it answers. Observers can see when an answer changes, and can ` +
    "recognise the repeated reports of one client.",
  once: (query) =>
    `It repeats its first report. Everything that it ${period(query)} is charged ${number(query.record_charge)}. ` +
    "Observers can recognise the reports of one client. The report stays the same if the true answer changes.",
  fresh: (query) =>
    `It draws new noise each time, and each answer is charged ${number(query.record_charge)}. The noise of many answers averages ` +
    `out. When its budget of ${number(query.budget)} is used up, it stays silent, for any answer.`,
};

const number = (value) => (value >= 100 ? count(Math.round(value)) : String(Number(value.toPrecision(3))));

/** Returns how sure a reader can be of an answer after reports with this epsilon, if he held it as likely as not before. */
export function sure(epsilon) {
  const chance = 1 / (1 + Math.exp(-epsilon));
  return chance > 0.999 ? "practically certain" : `at most ${percent(chance, chance > 0.99 ? 1 : 0)} sure`;
}

/** Returns which reports of a client are charged together. */
const TOGETHER = {
  life: (query) => `everything that one client ${period(query)}`,
  once: (query) => `everything that one client ${period(query)}`,
  fresh: () => "all answers that one client gives until its budget is used up",
};

/** Returns paragraphs that explain the protection by epsilon: of one report, and of all reports of a sender. */
export function privacy(query) {
  const epsilon = query.record_epsilon;
  const most = query.answers === "fresh" ? Math.max(query.budget, query.record_charge) : query.record_charge;
  const texts = [
    `Each client adds noise to its report before it sends it. The epsilon of one report is ${number(epsilon)}: it is at most ` +
      `${number(Math.exp(epsilon))} times as likely with one answer as with any other.`,
    "Suppose somebody considers an answer as likely as not. " +
      `A reader of one report can be ${sure(epsilon)} of it. ` +
      `A reader of ${TOGETHER[query.answers](query)} can be ${sure(most)}, because that is charged ${number(most)} in all: ` +
      `odds of ${odds(most)}.`,
    `A client answers once in ${duration(query.period)}. ${REPEATS[query.answers](query)}`,
  ];
  if (query.solution) {
    const share = query.solution === "rsfd" ? `. Between clients that differ in one attribute, epsilon is ${number(query.epsilon)}` : "";
    texts.splice(1, 0, `The query has ${query.attributes.length} attributes: ${SOLUTIONS[query.solution]}${share}.`);
  }
  return texts.map((text) => element("p", {}, text));
}

const CHANGED = "Whoever sees two windows learns the report of a person who changed, came or went. ";

/** Returns what readers of records learn of a person: from all windows, from this one alone, and from few reports. */
export function readers(query, { central, n, readable_below: least }) {
  const texts = [];
  if (central) {
    const { epsilon, windows } = central.together;
    texts.push(
      `All windows of a round together change the odds of any guess about a person ${odds(epsilon)} times. ` +
        (windows === "many" && query.answers !== "fresh" ? CHANGED : "") +
        `Somebody who sees this window and no other learns less: the odds change ${odds(central.epsilon)} times, ` +
        `except with a probability of ${number(central.delta)}. This counts on ${count(central.honest)} reports of other ` +
        "people that follow the rules.",
    );
  }
  if (least && n && n < least) {
    texts.push(
      `With fewer than about ${count(least)} reports, a reader of this record can read single reports. Only the noise of ` +
        "each report protects it.",
    );
  }
  return texts.join(" ");
}

/** Returns the largest factor by which an epsilon changes odds, as text. */
const odds = (epsilon) => (epsilon > 27 ? "perhaps more than 10^12" : `at most ${number(Math.exp(epsilon))}`);

/** Returns the word for what is proved of a value. */
export const proof = (query) => (query.threshold.kind === "significance" ? "present" : "frequent");

/** The words in place of a number whose interval says too little. */
export const WEAK = "too few reports";

/** Returns the threshold as text. */
export function threshold(query, share) {
  if (share >= 1) return "no share can be proved with so few reports";
  const kinds = {
    significance: `significant above ${percent(share)}`,
    share: `frequent above ${percent(share)}`,
    count: `frequent above ${count(query.threshold.value)} reports (${percent(share)})`,
  };
  return kinds[query.threshold.kind];
}

/** Returns how many windows a surge or fade took, if it took several. */
export const stretch = ({ scale, from }) =>
  scale > 1 ? ` over ${count(scale)} windows, compared with ${moment(from.start)} to ${clock(from.end)}` : "";

/** Whether an alert is of a name that a search has found: its query has no threshold, because nobody listed the values. */
const isName = ({ kind, by, threshold }) => kind === "enter" && by !== null && threshold === null;

/** Returns the word for the thing that an alert is about. */
export const thing = (alert, size) => `${isName(alert) ? "name" : "value"}${size === 1 ? "" : "s"}`;

/** Returns the texts of an alert. The first proof of a name has its own, because nobody listed the name. */
function alertWord(alert) {
  if (alert.baseline) return word(isName(alert) ? "first_search" : "baseline");
  return word(isName(alert) ? "found" : alert.kind);
}

/** Returns what has become of a value, or of several values, in words. */
export function verb(alert, isPlural = false) {
  const { text, plural } = alertWord(alert);
  return (isPlural ? plural : text).replace("{proof}", alert.by === "significance" ? "present" : "frequent");
}

/** Returns one word for what has become of a value. */
export const tag = (alert) => alertWord(alert).tag;
