// What numbers mean, in words.

import { count, duration, element, percent } from "./format.js";

const FLAGS = {
  partial: "The definition changed within this window.",
  incomplete: "Reports were deleted from the log before they could be read.",
  skewed: "The noise in these reports is not what honest clients send: somebody may be forging reports.",
  ids_overflow: "More frames carried an id than can be remembered: some may have been counted twice.",
  prior_rejected: "The fitted prior does not suit this window: the fallback method stands in for it.",
};

export const flag = (name) => FLAGS[name] ?? name;

/** The flags that bear on what is shown: a prior's only where a method uses it. */
export const flags = ({ method, quality }) =>
  quality.flags.filter((name) => name !== "prior_rejected" || method.startsWith("calibrate"));

const SOLUTIONS = {
  spl: "every attribute is answered with an equal part of it",
  smp: "one attribute, drawn at random, is answered with all of it",
  rsfd: "one attribute, drawn at random, is answered; all others carry made-up answers",
};

const number = (value) => (value >= 100 ? count(Math.round(value)) : String(Number(value.toPrecision(3))));

/** What epsilon protects, as paragraphs. */
export function privacy(query) {
  const epsilon = query.record_epsilon;
  const ratio = Math.exp(epsilon);
  const texts = [
    `Each report is randomised by its sender before it leaves: epsilon is ${number(epsilon)}. Whatever somebody ` +
      `answers, no report is more than ${number(ratio)} times as likely as it would be with any other answer.`,
    `So whoever sees a report, and thought an answer as likely as not before, can be at most ` +
      `${percent(ratio / (1 + ratio), 0)} sure of it afterwards. Nobody, this board included, ever sees more.`,
    `A sender answers once in ${duration(query.period)} and repeats the same noise while its answer stays the same, so ` +
      `repeating tells nothing new. Its budget allows ${count(query.answers)} different ` +
      `answer${query.answers === 1 ? "" : "s"} in all. A repeated report can be recognised as the same sender's.`,
  ];
  if (query.solution) {
    const share = query.solution === "rsfd" ? ` (${number(query.epsilon)} where two senders differ in one attribute)` : "";
    texts.splice(1, 0, `There are ${query.attributes.length} attributes: ${SOLUTIONS[query.solution]}${share}.`);
  }
  return texts.map((text) => element("p", {}, text));
}

/** The threshold as words. */
export function threshold(query, share) {
  const kinds = {
    significance: `significant above ${percent(share)}`,
    share: `frequent above ${percent(share)}`,
    count: `frequent above ${count(query.threshold.value)} reports (${percent(share)})`,
  };
  return kinds[query.threshold.kind];
}

export const CHANGES = {
  enter: "has become frequent",
  leave: "is frequent no more",
  surge: "is rising",
};
