// The sentence about a value that somebody looks for, and that the table does not show.

import { ApiError } from "./api.js";
import { count, element, percent } from "./format.js";
import { nameInText } from "./strings/name.js";
import { withheld } from "./words.js";

/** Returns why the table does not show a value, from the answer of the API about it. */
function reasonText(value, answer, query) {
  const name = nameInText(value);
  const reason = answer.missing_reasons[value] ?? Object.values(answer.missing_reasons)[0];
  if (reason === undefined) return "";
  if (reason.reason === "withheld") return `${name}: this window is ${withheld(answer.withheld_reason, query)}.`;
  const bound = reason.below === null ? "" : `; its share is below ${percent(reason.below, 1)}`;
  return `${name} is not among the ${count(answer.published)} published values${bound}.`;
}

/** Requests a value, and returns a sentence and buttons with near names. Empty if the table shows it. */
export async function absentValue(value, { ask, query, choose }) {
  try {
    return [reasonText(value, await ask(value), query)];
  } catch (error) {
    if (!(error instanceof ApiError && [400, 404].includes(error.status))) throw error;
    const near = error.near ?? [];
    const button = (name) => element("button", { type: "button", onclick: () => choose({ find: name }) }, name);
    const offer = near.length ? " Do you mean " : " Check its spelling, or look for a part of it.";
    return [`“${nameInText(value)}” is no value of ${query.name}.${offer}`, ...near.flatMap((name) => [button(name), " "])];
  }
}
