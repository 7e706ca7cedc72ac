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
    const others = about.group === null ? [] : labels.filter((label) => label !== about.group);
    const choice = this.address.get("compare");
    const age = AGES.find(([seconds]) => seconds === choice);
    const other = others.find((label) => GROUP + label === choice);
    const fixed = other === undefined ? this.address.get("from") : null;
    const windows = [...AGES, ...(fixed ? [["from", `the window to ${moment(Number(fixed))}`]] : [])];
    const groups = others.map((label) => [GROUP + label, `${query.groups.name} ${label}`]);
    select($("compare"), [["", "nothing"], ...windows, ...groups], fixed ? "from" : age || other !== undefined ? choice : "");
    this.from = null;
    if (!age && !fixed && other === undefined)
      return changes.say(`Choose an earlier window${groups.length ? " or another group" : ""}, to see what differs.`);
    if (!estimate.final) return changes.say("The provisional window is not compared.");
    const path = `queries/${encodeURIComponent(query.name)}`;
    let two = { window: estimate.window.end, with: other };
    if (other === undefined) {
      this.from = fixed ?? (await this.#before(path, about, estimate.window.end - Number(age[0]), subject));
      if (this.from === undefined) return changes.say(`This board has no window that ended ${age[1]} or earlier.`);
      two = { from: this.from, to: estimate.window.end };
    }
    const answer = await this.answers
      .get([subject], `${path}/compare`, { ...about, ...two, top })
      .catch((error) => (error instanceof ApiError && [400, 404].includes(error.status) ? error : Promise.reject(error)));
    const gone =
      other === undefined
        ? `This board does not have the window that ended at ${moment(Number(this.from))}.`
        : `${query.groups.name} ${other} has no reports in this window.`;
    if (answer instanceof ApiError) changes.say(answer.status === 404 ? gone : answer.message);
    else changes.show(answer, query);
  }

  /** Returns the end of the newest window that ended at a time or earlier. */
  async #before(path, { kind, size, step, group }, time, subject) {
    const { windows } = await this.answers.get([subject], `${path}/windows`, { kind, size, step, group, limit: 1, to: time + 1 });
    return windows.at(-1)?.end;
  }
}
