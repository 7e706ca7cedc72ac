// The comparison of a window with an earlier one, or of a group with another one.

import { ApiError } from "./api.js";
import { Changes } from "./changes.js";
import { select } from "./controls.js";
import { moment } from "./format.js";
import { NumberChanges } from "./numbers/changes.js";

const AGES = [
  ["3600", "an hour ago"],
  ["86400", "a day ago"],
  ["604800", "a week ago"],
];
const STEPS = [
  [1, "-1", "the window before"],
  [5, "-5", "5 windows before"],
  [30, "-30", "30 windows before"],
  [1, "first", "the first window"],
]; // windows that must exist before, the choice as the API has it, and its name
const MOST_STEPS = 30;
const GROUP = "group "; // begins the choice of another group
const $ = (id) => document.getElementById(id);

export class Comparison {
  from = null; // the end of the earlier window of the last comparison

  constructor(address, answers) {
    Object.assign(this, { address, answers });
    const changes = [$("changes"), $("change-rows"), $("changes-text")];
    this.ofValues = new Changes(...changes);
    this.ofNumbers = new NumberChanges(...changes);
  }

  /** Requests and shows a comparison. `about` names the window, the attribute and the group of the page. */
  async show(query, estimate, about, { subject, top, labels }) {
    const changes = estimate.numbers ? this.ofNumbers : this.ofValues;
    const path = `queries/${encodeURIComponent(query.name)}`;
    const ask = (route, parameters) => this.answers.get([subject], `${path}/${route}`, parameters);
    const others = about.group === null ? [] : labels.filter((label) => label !== about.group);
    const groups = others.map((label) => [GROUP + label, `${query.groups.name} ${label}`]);
    const choice = this.address.get("compare") ?? "";
    const isGroup = groups.some(([value]) => value === choice);
    const fixed = isGroup ? null : this.address.get("from");
    const windows = estimate.final ? await this.#windows(ask, about, estimate.window.end) : [];
    this.#fill([...windows, ...groups], fixed, choice);

    this.from = null;
    if (!choice && !fixed) return changes.say(this.#invitation(windows, groups));
    if (!estimate.final) return changes.say("The provisional window is not compared.");
    const other = isGroup ? choice.slice(GROUP.length) : null;
    const two = isGroup ? { window: estimate.window.end, with: other } : await this.#pair(ask, about, fixed ?? choice, estimate.window.end);
    if (two === null) return changes.say(`This board has no window that ended ${nameOf(choice)} or earlier.`);
    const answer = await ask("compare", { ...about, ...two, top }).catch((error) => {
      if (error instanceof ApiError && [400, 404].includes(error.status)) return error;
      throw error;
    });

    const gone = isGroup ? `${query.groups.name} ${other} has no reports in this window.` : goneText(fixed ?? choice);
    if (answer instanceof ApiError) return changes.say(answer.status === 404 ? gone : answer.message);
    if (!isGroup) this.from = answer.before.window.end;
    changes.show(answer, query);
  }

  #invitation(windows, groups) {
    if (!windows.length && !groups.length) return "There is no earlier window yet. The next one can be compared with this one.";
    const ways = [...(windows.length ? ["an earlier window"] : []), ...(groups.length ? ["another group"] : [])];
    return `Choose ${ways.join(" or ")}, to see what differs.`;
  }

  /** Fills the menu with what exists, and with the choice of the address. */
  #fill(options, fixed, choice) {
    const isListed = options.some(([value]) => value === choice);
    const missing = choice && !fixed && !isListed ? [[choice, nameOf(choice)]] : [];
    const own = fixed ? [["from", `the window to ${moment(Number(fixed))}`]] : missing;
    select($("compare"), [["", "nothing"], ...options, ...own], fixed ? "from" : choice);
  }

  /** Returns the earlier windows that the board has, each a choice and its name. */
  async #windows(ask, { kind, size, step, group }, end) {
    const of = { kind, size, step, group };
    const { windows } = await ask("windows", { ...of, to: end, limit: MOST_STEPS });
    if (!windows.length) return [];
    const ends = await Promise.all(AGES.map(([seconds]) => this.#before(ask, of, end - Number(seconds))));
    const steps = STEPS.filter(([count]) => windows.length >= count).map(([, value, name]) => [value, name]);
    return [...steps, ...AGES.filter((_, at) => ends[at] !== undefined)];
  }

  /** Returns the two windows of a choice as the API has them, or null if there is no earlier one. */
  async #pair(ask, about, choice, to) {
    const isAge = AGES.some(([seconds]) => seconds === choice);
    const from = isAge ? await this.#before(ask, about, to - Number(choice)) : choice;
    return from === undefined ? null : { from, to };
  }

  /** Returns the end of the newest window that ended at a time or earlier. */
  async #before(ask, { kind, size, step, group }, time) {
    const { windows } = await ask("windows", { kind, size, step, group, limit: 1, to: Math.max(0, time + 1) });
    return windows.at(-1)?.end;
  }
}

/** Returns the name of a choice. */
function nameOf(choice) {
  return [...AGES, ...STEPS.map(([, value, name]) => [value, name])].find(([value]) => value === choice)?.[1] ?? choice;
}

/** Returns that the board lacks the earlier window. */
function goneText(choice) {
  if (/^\d+$/.test(choice)) return `This board does not have the window that ended at ${moment(Number(choice))}.`;
  return `This board does not have ${nameOf(choice)}.`;
}
