// The table of a pair of attributes: a cell for each pair of values, shaded by its share.

import { count, element, inside, percent } from "./format.js";
import { nameInText } from "./strings/name.js";
import { WEAK } from "./words.js";

export const PAIR = "*"; // between the two names of a pair

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** Returns the values of one side, the most frequent first. */
function ordered(cells, side) {
  const totals = new Map();
  for (const cell of cells) totals.set(cell.pair[side], (totals.get(cell.pair[side]) ?? 0) + cell.share);
  return [...totals].sort(([, one], [, other]) => other - one).map(([value]) => value);
}

export class PairTable {
  /** `choose` changes the address; a click on a row's name asks for the shares within this row. */
  constructor(card, choose) {
    this.card = card;
    this.choose = choose;
    [this.table, this.text, this.within] = ["table", ".sub", ".within"].map((selector) => card.querySelector(selector));
  }

  hide() {
    this.card.hidden = true;
  }

  /** Shows the cells of an estimate, and the shares within one row, if `given` is an answer of the API. */
  show(estimate, given) {
    const [first, second] = estimate.attribute.split(PAIR);
    const cells = estimate.values.map((row) => ({ ...row, pair: JSON.parse(row.value) }));
    const [rows, columns] = [ordered(cells, 0), ordered(cells, 1)];
    const byPair = new Map(cells.map((cell) => [cell.value, cell]));
    const largest = Math.max(1e-9, ...cells.map(({ share }) => share));
    const proofs = cells.filter(({ present }) => present).length;
    this.card.hidden = cells.length === 0;
    this.text.textContent =
      `${first} by ${second}: share of all clients. ${count(proofs)} of ${count(cells.length)} cells are proved present, ` +
      "and the others may be zero.";
    const head = element(
      "tr",
      {},
      element("th", { scope: "col" }, first),
      ...columns.map((value) => element("th", { scope: "col" }, value)),
      element("th", { scope: "col", class: "margin" }, "all"),
    );
    const body = rows.map((row) => {
      const line = columns.map((column) => byPair.get(JSON.stringify([row, column])));
      const button = element(
        "button",
        {
          type: "button",
          class: "plain",
          "aria-pressed": given?.value === row,
          onclick: () => this.choose({ given: given?.value === row ? null : row }),
        },
        row,
      );
      const margin = element("td", { class: "margin" }, percent(inside(sum(line.map((cell) => cell?.share ?? 0))), 1));
      return element("tr", {}, element("th", { scope: "row" }, button), ...line.map((cell) => this.#cell(cell, largest)), margin);
    });
    this.table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
    this.#showWithin(given);
  }

  #cell(cell, largest) {
    if (!cell) return element("td", { class: "unproved" }, "–");
    if (cell.weak) return element("td", { class: "unproved", title: WEAK }, "?");
    const title = `${percent(cell.low)} to ${percent(cell.high)}`;
    const node = element("td", { class: cell.present ? "proved" : "unproved", title }, percent(inside(cell.share), 1));
    node.style.setProperty("--heat", Math.max(0, Math.min(1, cell.share / largest)).toFixed(3));
    return node;
  }

  #showWithin(given) {
    this.within.hidden = !given;
    if (!given) return;
    const [list] = this.within.getElementsByTagName("ul");
    const items = [...given.values].sort((one, other) => (other.share ?? -1) - (one.share ?? -1));
    const words = ({ value, share, low, high }) =>
      share === null
        ? `${nameInText(value)}: not known`
        : `${nameInText(value)}: ${percent(inside(share), 1)} (${percent(low, 1)} to ${percent(high, 1)})`;
    const size = given.margin.share === null ? "" : ` (${percent(given.margin.share, 1)} of all clients)`;
    this.within.querySelector("h3").textContent = `Among clients with ${given.attribute} = ${nameInText(given.value)}${size}`;
    list.replaceChildren(...items.map((item) => element("li", {}, words(item))));
  }
}
