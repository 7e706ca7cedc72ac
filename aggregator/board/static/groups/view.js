// All groups of a query side by side: a small chart for each, with the same values on the same scale.

import { axis, count, digits, element, inside, levelText, percent } from "../format.js";
import { position } from "../numbers/scale.js";
import { places, plain, title, withUnit } from "../numbers/text.js";
import { WEAK, withheld } from "../words.js";

const NO_GROUP = "(none)"; // reports without a group

/** Returns the groups of a query, those without a value last. */
export const labelsOf = ({ groups }) => (groups === null ? [] : [...groups.values, NO_GROUP]);

const place = (node, left, width) => {
  node.style.left = `${Math.min(Math.max(100 * left, 0), 100)}%`;
  if (width !== undefined) node.style.width = `${Math.min(Math.max(100 * width, 0), 100)}%`;
  return node;
};

export class GroupsView {
  /** `choose` changes the address: a click on a group shows its page. */
  constructor(card, choose) {
    Object.assign(this, { card, choose });
    [this.head, this.text, this.box] = ["h2", ".sub", ".multiples"].map((selector) => card.querySelector(selector));
  }

  hide() {
    this.card.hidden = true;
  }

  /** Shows an answer of the API about all groups. `selection` is the group of the page, or null. */
  show(answer, { numbers }, query, selection) {
    const rows = answer.values;
    const end = Math.min(1, 1.03 * Math.max(1e-4, ...rows.filter(({ measure }) => measure === "share").map(({ high }) => high ?? 0)));
    const at = ({ measure }, value) => (measure === "number" ? position(numbers, value) : value / end);
    this.card.hidden = false;
    this.head.textContent = `By ${answer.by}`;
    const kind = numbers ? "Quantiles, means and ranges" : "The most frequent values of the total";
    const level = `${levelText(answer.level)} interval`;
    this.text.textContent = `${kind}, with the ${level} of each. The groups are public and sent in clear.${this.#weights(query)}`;
    const parts = answer.groups.map((part) =>
      this.#group(
        part,
        rows.filter(({ group }) => group === part.group),
        { at, unit: answer.unit, name: numbers ? title : String, query, selection },
      ),
    );
    this.box.replaceChildren(...parts);
  }

  #weights({ groups }) {
    if (groups.weights === null) return "";
    const texts = Object.entries(groups.weights).map(([value, weight]) => `${value} ${axis(weight)}`);
    return ` Known shares: ${texts.join(", ")}.`;
  }

  #group({ group, n, withheld: reason }, rows, { at, unit, name, query, selection }) {
    const isChosen = group === selection;
    const button = element(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-pressed": String(isChosen),
        onclick: () => this.choose({ group: isChosen ? null : group, compare: null, from: null }),
      },
      group,
    );
    const size = element("small", {}, reason === null ? `${count(n)} reports` : withheld(reason, query));
    const table = element("table", {}, element("tbody", {}, ...rows.map((row) => this.#row(row, name(row.value), at, unit))));
    return element(
      "section",
      { class: isChosen ? "multiple chosen" : "multiple" },
      element("h3", {}, button, " ", size),
      ...(rows.length ? [table] : []),
    );
  }

  #row(row, name, at, unit) {
    const isNumber = row.measure === "number";
    const isKnown = row.share !== null && row.low !== null && !row.weak;
    const decimals = !isKnown ? 0 : isNumber ? places(row.low, row.high) : digits((row.high - row.low) / 4);
    const text = (value) => (isNumber ? plain(value, decimals) : percent(value, decimals));
    const track = element("div", { class: "track", "aria-hidden": "true" });
    if (isKnown) {
      if (!isNumber) track.append(place(element("i", { class: "bar" }), 0, Math.max(0, at(row, row.share))));
      track.append(place(element("i", { class: "whisker" }), at(row, row.low), at(row, row.high) - at(row, row.low)));
      if (isNumber) track.append(place(element("i", { class: "dot" }), at(row, row.share)));
    }
    const interval = isKnown ? element("span", { class: "hidden" }, ` (${text(row.low)} to ${text(row.high)})`) : "";
    const value = isNumber ? (share) => withUnit(share, decimals, unit) : (share) => text(inside(share));
    const words = row.weak ? element("span", { class: "weak" }, WEAK) : "–";
    const zero = isKnown && !isNumber && row.may_be_zero ? [" ", element("span", { class: "zero" }, "may be zero")] : [];
    return element(
      "tr",
      { title: isKnown ? `${text(row.low)} to ${text(row.high)}` : row.weak ? WEAK : "not published" },
      element("th", { scope: "row" }, name, ...zero),
      element("td", { class: "plot" }, track),
      element("td", { class: "number" }, isKnown ? value(row.share) : words, interval),
    );
  }
}
