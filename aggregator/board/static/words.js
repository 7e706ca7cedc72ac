// What numbers mean, in words.

import { count, duration, element, percent } from "./format.js";

const FLAGS = {
  partial: "The definition changed within this window.",
  incomplete: "Reports were deleted from the log before they could be read.",
  skewed: "The noise in these reports is not what honest clients send: somebody may be forging reports.",
  ids_overflow: "More frames carried an id than can be remembered: some may have been counted twice.",
  small: "Too few reports came in this window for any value to be shown.",
  held: "Too few reports were added: the values of an earlier window still stand.",
  corrected: "A correction changed what stood here.",
  prior_rejected: "The fitted prior does not suit this window: the fallback method stands in for it.",
};

export const flag = (name) => FLAGS[name] ?? name;

/** Whether a flag speaks of somebody's intent, not of a gap or a setting. */
export const forged = (name) => name === "skewed";

/** The flags that bear on what is shown: a prior's only where a method uses it. */
export const flags = ({ method, quality }) =>
  quality.flags.filter((name) => name !== "prior_rejected" || method.startsWith("calibrate"));

const SOLUTIONS = {
  spl: "every attribute is answered with an equal part of it",
  smp: "one attribute, drawn at random, is answered with all of it",
  rsfd: "one attribute, drawn at random, is answered; all others carry made-up answers",
};

const within = (query) => (query.renew === null ? "ever sends" : `sends in ${duration(query.renew)}`);

const REPEATS = {
  life: (query) =>
    `repeats the same noise whenever it answers the same. All that it ${within(query)} is charged ` +
    `${number(query.record_charge)}, however often it answers. That an answer changed, and when, is not hidden, and ` +
    `repeated reports can be recognised as the same sender's.`,
  once: (query) =>
    `repeats its first report. All that it ${within(query)} is charged ${number(query.record_charge)}. The report can ` +
    `be recognised as the same sender's, and does not follow what changes.`,
  fresh: (query) =>
    `with new noise each time. Each answer is charged ${number(query.record_charge)}, and it is silent once its budget ` +
    `of ${number(query.budget)} is spent, whatever it answered.`,
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
    `A sender answers once in ${duration(query.period)}, and ${REPEATS[query.answers](query)}`,
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
  enter: "is now proved frequent",
  leave: "is proved frequent no more",
  surge: "has risen",
};

export const TOGETHER = {
  enter: "are now proved frequent",
  leave: "are proved frequent no more",
  surge: "have risen",
};
