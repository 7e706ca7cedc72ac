// The changes of numbers between two windows: quantiles and means in their unit, ranges as shares.

import { Changes, endText } from "../changes.js";
import { digits, inside, percent } from "../format.js";
import { places, plain, title } from "./text.js";

const sign = (number) => (number > 0 ? "+" : "");

export class NumberChanges extends Changes {
  noun = "answers";

  /** Returns the rows of an answer. Each bar is the change as a part of the number before, because the units differ. */
  rows(answer) {
    const parts = answer.values.flatMap(({ low, high, before }) => (before ? [Math.abs(low / before), Math.abs(high / before)] : []));
    const reach = Math.min(2, Math.max(1e-6, ...parts));
    return answer.values.map((row) => this.#row(row, reach));
  }

  note({ unit }) {
    return unit ? ` Numbers are in ${unit}.` : "";
  }

  #row(row, reach) {
    const isNumber = row.measure === "number";
    const decimals = isNumber ? places(row.low, row.high) : digits((row.high - row.low) / 4);
    const text = (value) => (isNumber ? plain(value, decimals) : percent(value, decimals));
    const shown = (value) => text(isNumber ? value : inside(value));
    const signed = (value) => sign(value) + text(value);
    const part = (value) => value / Math.abs(row.before);
    const parts = row.before ? { difference: part(row.difference), low: part(row.low), high: part(row.high) } : null;
    return this.row(row, title(row.value), {
      before: shown(row.before),
      after: shown(row.after),
      difference: signed(row.difference),
      interval: [row.low, row.high].map((end) => endText(row, end, signed)).join(" to "),
      track: this.track(parts, reach),
    });
  }
}
