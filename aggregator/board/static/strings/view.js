// The names of a window of unknown strings, and a box to ask for any other string.

import { digits, element, moment, percent } from "../format.js";
import { nameElement, plainName } from "./name.js";
import { LEVEL, PROTECTION, answerText, levels, nothing, reach, unclear } from "./text.js";

const LONGEST = 800; // characters of a string that somebody asks for: more than any coding reads, and few enough for an address

export class StringsView {
  /** Builds the view in a box. `choose` changes the address: the name of the history, and the string to ask for. */
  constructor(box, choose) {
    this.box = box;
    this.choose = choose;
    this.reach = element("p", { class: "sub" });
    this.none = element("p", { class: "none" });
    this.body = element("tbody");
    const head = (text, kind) => element("th", { scope: "col", class: kind }, text);
    const heads = [
      head("#", "rank"),
      head("Name", "name"),
      head("Share", "number"),
      head(element("span", { class: "hidden" }, "Bar and interval"), "plot"),
      head("Interval", "interval"),
      head("First seen", "seen"),
    ];
    const caption = element("caption", { class: "hidden" }, "The names found, by share. Choose one to see its history.");
    const table = element("table", { id: "names" }, caption, element("thead", {}, element("tr", {}, ...heads)), this.body);
    this.scroll = element("div", { class: "scroll", role: "region", "aria-label": "Names found", tabindex: "0" }, table);
    this.levels = element("p", { class: "sub" });
    this.unclear = element("p", { class: "sub" });
    this.field = element("input", {
      id: "ask-text",
      type: "text",
      maxlength: LONGEST,
      autocomplete: "off",
      spellcheck: "false",
      "aria-describedby": "ask-note",
    });
    this.answer = element("p", { id: "answer", role: "status" });
    const line = element("div", { class: "line" }, this.field, element("button", { type: "submit" }, "Ask"));
    const note = element("p", { id: "ask-note", class: "sub" }, PROTECTION);
    const form = element(
      "form",
      { id: "ask", onsubmit: (event) => this.#ask(event) },
      element("label", { for: "ask-text" }, "Share of any string"),
      line,
      this.answer,
      note,
    );
    this.box.append(this.reach, this.none, this.scroll, this.levels, this.unclear, form);
  }

  hide() {
    this.box.hidden = true;
  }

  /** Shows the names of an estimate. `asked` has the string of the box and its answer, or the error of the board. */
  show(estimate, attribute, selection, asked) {
    const { discover, window } = estimate;
    this.box.hidden = discover === null;
    if (discover === null) return;
    const about = new Map(discover.names.map((each) => [each.value, each]));
    const end = Math.min(1, 1.03 * Math.max(1e-4, ...estimate.values.map(({ high, share }) => Math.max(high, share))));
    const names = estimate.values.map(({ value }) => value);
    this.reach.textContent = reach(estimate, attribute);
    this.none.hidden = names.length > 0;
    this.scroll.hidden = names.length === 0;
    this.none.textContent = names.length ? "" : nothing(estimate);
    this.levels.textContent = levels(estimate);
    this.unclear.textContent = unclear(estimate);
    const focus = document.activeElement?.dataset?.name;
    this.body.replaceChildren(...estimate.values.map((row, at) => this.#row(row, about.get(row.value), at + 1, end, window.end, selection)));
    if (focus !== undefined) [...this.body.querySelectorAll("button")].find((each) => each.dataset.name === focus)?.focus({ preventScroll: true });
    if (document.activeElement !== this.field) this.field.value = asked?.text ?? "";
    this.answer.textContent = asked === null ? "" : (asked.error ?? answerText(asked.text, asked.answer, names));
  }

  #row(row, { first_seen: seen, level }, rank, end, windowEnd, selection) {
    const places = digits((row.high - row.low) / 4);
    const isChosen = row.value === selection;
    const at = (share) => `${Math.min(Math.max((100 * share) / end, 0), 100)}%`;
    const bar = element("i", { class: "bar" });
    bar.style.width = at(row.share);
    const whisker = element("i", { class: "whisker" });
    whisker.style.left = at(row.low);
    whisker.style.width = at(row.high - row.low);
    const button = element(
      "button",
      {
        type: "button",
        "data-name": row.value,
        "aria-label": plainName(row.value),
        "aria-pressed": String(isChosen),
        onclick: () => this.choose({ value: row.value }),
      },
      nameElement(row.value),
    );
    const tag = seen === windowEnd && level !== LEVEL ? [element("span", { class: "tag enter" }, "newly proved")] : [];
    return element(
      "tr",
      { class: isChosen ? "chosen" : null },
      element("td", { class: "rank" }, element("b", {}, rank)),
      element("th", { scope: "row", class: "name" }, button, ...tag),
      element("td", { class: "number" }, element("data", { value: row.share }, percent(row.share, places))),
      element("td", { class: "plot" }, element("div", { class: "track", "aria-hidden": "true" }, bar, whisker)),
      element("td", { class: "interval" }, `${percent(row.low, places)} – ${percent(row.high, places)}`),
      element("td", { class: "seen" }, seen === null ? "–" : element("time", { datetime: new Date(1000 * seen).toISOString() }, moment(seen))),
    );
  }

  #ask(event) {
    event.preventDefault();
    this.choose({ ask: this.field.value.slice(0, LONGEST) });
  }
}
