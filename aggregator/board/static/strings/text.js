// Sentences about unknown strings: what a search can show, the levels of intervals, and an answer about one string.

import { count, digits, duration, inside, levelText, percent } from "../format.js";
import { nameInText } from "./name.js";

export const LEVEL = 0.95; // of the intervals of names that were known before

const after = ({ low, high }) => digits((high - low) / 4);

/** Returns a share with its interval as text. */
export function shareText(row) {
  const places = after(row);
  return `${percent(inside(row.share), places)} (${percent(row.low, places)} to ${percent(row.high, places)})`;
}

/** Returns what a search of a window can show at best, or what its names are if it is not searched. */
export function reach({ discover, n }, { strings }) {
  const symbols = `${count(strings.length)} ${strings.discover === "bytes" ? "bytes" : "characters"}`;
  if (!discover.has_search) {
    return `Names are searched in windows of ${duration(strings.search)} or more. This window shows the names that were found before.`;
  }
  if (discover.smallest === null) return `With ${count(n)} reports a search finds no name, however common it is.`;
  return (
    `With ${count(n)} reports a search finds a name of up to ${symbols} with a probability of 90% ` +
    `if its share is at least ${percent(discover.smallest)}. Shorter names need less.`
  );
}

/** Returns why a window has no names. */
export function nothing({ discover, n }) {
  if (!discover.has_search) return "No name was found before this window.";
  if (discover.smallest === null) return `No name is proved yet. ${count(n)} reports are too few for any name.`;
  return `No name is proved yet. With ${count(n)} reports a name needs a share of about ${percent(discover.smallest)}.`;
}

/** Returns the levels of the intervals in words. */
export function levels({ discover }) {
  const known = discover.names.filter(({ level }) => level === LEVEL).length;
  const found = discover.names.filter(({ level }) => level !== LEVEL);
  if (!discover.names.length) return "";
  if (!found.length) return "Each interval holds the true share with a probability of 95%.";
  const list = `${levelText(found[0].level)} intervals of names that this window found: so high a level keeps the whole list right.`;
  return known ? `${list} Names that were known before have 95% intervals.` : list;
}

/** Returns the names that no map tells apart from others, as a sentence. */
export function unclear({ discover }) {
  if (!discover.ambiguous.length) return "";
  return `Not told apart from names above: ${discover.ambiguous.map(nameInText).join(", ")}.`;
}

/** Returns the answer about one string as a sentence. `names` are those that the page lists. */
export function answerText(text, answer, names) {
  const [row] = answer.values;
  const [about] = answer.discover?.names ?? [];
  if (row === undefined) return "This window is withheld, so it has no answer.";
  const name = `“${nameInText(row.value)}”`;
  const same = row.value === text ? name : `“${nameInText(text)}” counts as ${name}, which`;
  if (row.share === null) {
    return `${same} cannot be told apart from the names above, so its share is not known. Each of the four maps counts it together with one of them.`;
  }
  if (row.weak) return `The share of ${name} cannot be told yet, because the window has too few reports.`;
  const source = `${levelText(about.level)} interval, by ${count(about.n)} reports`;
  const isName = names.includes(row.value);
  const kind = isName ? "is a name above" : row.low > 0 ? "is no name above, but it is there" : "may be zero";
  return `${same} has a share of ${shareText(row)} and ${kind} (${source}).`;
}

export const PROTECTION =
  "You can ask for any string, whether it was found or not. The noise of each client protects a string that somebody asks for. " +
  "The smallest group of the query (crowd) does not: it decides only which names are listed.";
