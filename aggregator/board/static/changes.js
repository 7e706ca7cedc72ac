// The changes between two windows: a table with the difference of each value and its interval.

import { clock, count, digits, element, inside, levelText, moment, percent } from "./format.js";
import { withheld } from "./words.js";

const signed = (share, places) => (share > 0 ? `+${percent(share, places)}` : percent(share, places));

/** Returns an end of an interval as text. The interval of a proved change ends at 0, and does not hold it. */
export function endText({ proved, difference }, end, text) {
  if (!proved || end !== 0) return text(end);
  return difference > 0 ? "more than 0" : "less than 0";
}

/** Returns in words how often the comparison may be read. */
export function promise({ looks, family_error: error }, noun) {
  const chance = `at most ${Number((100 * error).toPrecision(3))}% of cases`;
  if (looks === "always") return `A false ${noun} is proved in ${chance}, however often you look.`;
  if (looks === "day") return `All such comparisons of a day together prove a false ${noun} in ${chance}.`;
  return `A single look proves a false ${noun} in ${chance}.`;
}

/** Returns in words what a row proves. Without a verdict one of the records has counts that no crowd has. */
export function verdict({ proved, difference }) {
  if (proved) return "proved";
  if (difference === null) return "in one window only";
  return proved === null ? "proves nothing: impossible counts" : "may be chance";
}

const place = (node, from, to, reach) => {
  const at = (share) => 50 + (50 * Math.min(Math.max(share, -reach), reach)) / reach;
  node.style.left = `${at(from)}%`;
  node.style.width = `${at(to) - at(from)}%`;
  return node;
};

export class Changes {
  noun = "values";

  constructor(table, body, text) {
    this.table = table;
    this.body = body;
    this.text = text;
  }

  /** Shows a sentence instead of a table. */
  say(text) {
    this.table.hidden = true;
    this.text.textContent = text;
  }

  /** Shows a comparison of the API. */
  show(answer, query) {
    const hidden = [answer.before, answer.after].find((each) => each.withheld !== null);
    if (hidden) {
      const owner = hidden.group === null ? "" : `of ${Object.values(hidden.group)[0]} `;
      return this.say(`The window ${owner}that ended at ${moment(hidden.window.end)} is ${withheld(hidden.withheld, query)}.`);
    }
    const ofGroups = answer.before.group !== null && answer.before.group?.[query.groups.name] !== answer.after.group?.[query.groups.name];
    const names = ofGroups ? [answer.before, answer.after].map(({ group }) => group[query.groups.name]) : ["Before", "Now"];
    const [before, after] = [answer.before, answer.after].map(
      ({ window, n }) => `${moment(window.start)} to ${clock(window.end)} (${count(n)} reports)`,
    );
    const noun = ofGroups ? "difference" : "change";
    const proofs = `${count(answer.proofs)} ${noun}${answer.proofs === 1 ? " is" : "s are"} proved among ${count(answer.common)} ${this.noun}`;
    const overlap = answer.overlap ? " The windows share reports, so the intervals are wider than needed." : "";
    this.table.hidden = false;
    this.table.querySelector(".level").textContent = `${levelText(answer.level)} interval`;
    for (const [at, side] of ["before", "after"].entries()) this.table.querySelector(`thead .${side}`).textContent = names[at];
    this.text.textContent = `${names[0]}: ${before}. ${names[1]}: ${after}. ${proofs}. ${promise(answer, noun)}${overlap}${this.note(answer)}`;
    this.body.replaceChildren(...this.rows(answer));
  }

  /** Returns a sentence about the rows. */
  note() {
    return "";
  }

  /** Returns the rows of an answer about shares. */
  rows(answer) {
    const reach = Math.max(1e-6, ...answer.values.flatMap(({ low, high }) => (low === null ? [] : [Math.abs(low), Math.abs(high)])));
    const places = Math.max(2, ...answer.values.slice(0, 1).map(({ stderr }) => digits(stderr)));
    return answer.values.map((row) => {
      const isTested = row.difference !== null;
      return this.row(row, row.value, {
        before: percent(inside(row.before), places),
        after: percent(inside(row.after), places),
        difference: isTested ? signed(row.difference, places) : "–",
        interval: isTested ? [row.low, row.high].map((end) => endText(row, end, (share) => signed(share, places))).join(" to ") : "–",
        track: this.track(isTested ? row : null, reach),
      });
    });
  }

  /** Returns a bar and a whisker for a difference, or nothing for null. */
  track(row, reach) {
    const track = element("div", { class: "track both", "aria-hidden": "true" });
    if (row === null) return track;
    const bar = place(element("i", { class: "bar" }), Math.min(0, row.difference), Math.max(0, row.difference), reach);
    track.append(bar, place(element("i", { class: "whisker" }), row.low, row.high, reach));
    return track;
  }

  /** Returns a row with these texts. */
  row(row, name, { before, after, difference, interval, track }) {
    return element(
      "tr",
      { class: row.proved ? "proved" : "unproved" },
      element(
        "th",
        { scope: "row", class: "name" },
        element("bdi", {}, name),
        " ",
        element("span", { class: row.proved ? "tag" : "tag none" }, verdict(row)),
      ),
      element("td", { class: "number" }, before),
      element("td", { class: "number" }, after),
      element("td", { class: "number" }, difference),
      element("td", { class: "plot" }, track),
      element("td", { class: "interval" }, interval),
    );
  }
}
