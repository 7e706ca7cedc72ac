// The charts of a query's page over time: the history of one or two values, and the reports per second.

import { list, numbered } from "./annotations.js";
import { History, Rates } from "./charts.js";
import { clock, count, element, inside, windowName } from "./format.js";
import { savePicture } from "./picture.js";
import { answerText } from "./numbers/view.js";
import { spaced } from "./status.js";
import { nameInText } from "./strings/name.js";
import { WEAK, reason, withheld } from "./words.js";

const $ = (id) => document.getElementById(id);
const UNKNOWN = { flags: [], n: 0, share: null, low: null, high: null, truth: null, duplicate: 0, implausible: 0 };
const emptyPoint = (end) => ({ ...UNKNOWN, start: end, end });

/** Returns the points of a history as the chart shows them: no share outside 0 and 1, and no weak number. */
function shown(answer) {
  const fit = answer?.measure === "share" ? inside : (value) => value;
  return (answer?.points ?? []).map((point) => {
    const [share, low, high] = point.weak ? [null, null, null] : [point.share, point.low, point.high].map(fit);
    return { ...point, share, low, high };
  });
}

/** Returns the newest share of a value as text. */
function historyText(value, answer, simulated) {
  const points = answer?.points ?? [];
  const last = points.findLast((point) => point.share !== null);
  const gaps = points.filter((point) => point.withheld).length;
  const note = gaps ? `; ${gaps} of ${points.length} windows withheld` : "";
  if (!last) return `${nameInText(value)}: not among the published values${note}`;
  if (last.weak) return `${nameInText(value)}: ${WEAK} at ${clock(last.end)}${note}`;
  const { measure, unit, level } = answer;
  const truth =
    simulated && last.truth !== null
      ? `, ${measure === "share" ? "true share" : "truth"} ${answerText({ ...last, measure, value: last.truth }, unit).split(" (")[0]}`
      : "";
  return `${nameInText(value)}: ${answerText({ ...last, measure, level, value: last.share }, unit)} at ${clock(last.end)}${truth}${note}`;
}

export class Series {
  /** `now` returns the time of the board's clock. */
  constructor(now) {
    this.now = now;
    this.history = new History($("history"));
    this.rates = new Rates($("rates"));
  }

  /** Saves a chart as a picture, with its title, its text and the time. */
  savePicture(id, name) {
    const chart = id === "history" ? this.history : this.rates;
    const node = chart.picture(`${name}: ${$(`${id}-title`).textContent}`, $(`${id}-text`).textContent);
    if (node) savePicture(`${name}-${id}.svg`, node);
  }

  /** Gives a chart the annotations of its stretch of time, and lists them below it. */
  #annotate(name, ends, annotations) {
    const visible = ends.length > 1 ? numbered(annotations, [ends[0], ends.at(-1)]) : [];
    this[name].annotations = visible;
    list($(`${name}-annotations`), visible);
  }

  /** Shows the history of a value and of a second one, each with its answer of the API. */
  showHistory([value, answer], second, { simulated, step, nothing, annotations }) {
    const points = shown(answer);
    this.history.measure = answer?.measure ?? "share";
    $("history-text").textContent = value === undefined ? (nothing ?? "No window with values yet") : historyText(value, answer, simulated);
    $("second-text").hidden = second === null;
    $("second-text").textContent = second === null ? "" : historyText(...second, simulated);
    const other = new Map(shown(second?.[1]).map((point) => [point.end, point]));
    const line = spaced(points, step, this.now(), emptyPoint);
    const column = (key) => line.map((point) => point[key]);
    const columns = [column("end"), column("low"), column("high"), column("share"), column("truth")];
    if (second !== null) columns.push(...["low", "high", "share"].map((key) => line.map((point) => other.get(point.end)?.[key] ?? null)));
    this.#annotate("history", columns[0], annotations);
    this.history.show(columns, JSON.stringify([value, second?.[0], this.history.measure]));
    $("history-picture").disabled = !this.history.isEnough;
    const field = $("with");
    if (document.activeElement !== field) field.value = second?.[0] ?? "";
  }

  /** Shows the reports of windows per second. */
  showRates(windows, query, annotations) {
    const seconds = (each) => Math.max(each.end - each.start, 1);
    const isWithheld = (each) => reason(each.flags) !== null;
    const refused = (each) => each.duplicate + each.implausible;
    const line = spaced(windows, windows[0]?.step, this.now(), emptyPoint);
    const column = (number) => line.map((each) => (each.missing || isWithheld(each) ? null : number(each) / seconds(each)));
    const ends = line.map((each) => each.end);
    this.#annotate("rates", ends, annotations);
    this.rates.show([ends, column((each) => each.n), column(refused)]);
    $("rates-picture").disabled = !this.rates.isEnough;
    const last = windows.at(-1);
    const length = last ? windowName(last) : "";
    if (!last) $("rates-text").textContent = "";
    else if (isWithheld(last)) $("rates-text").textContent = `The last window (${length}) is ${withheld(reason(last.flags), query)}`;
    else $("rates-text").textContent = `${count(Math.round(last.n / seconds(last)))} per second in the last window (${length})`;
    const gaps = windows.filter((each) => isWithheld(each) && !each.n).length;
    const counted = windows.length - gaps;
    const total = (key) => windows.reduce((sum, each) => sum + each[key], 0);
    const rows = [
      [`Counted in ${count(counted)} window${counted === 1 ? "" : "s"}`, counted ? total("n") : null],
      ...(gaps ? [["Withheld windows", gaps]] : []),
      ["Refused: duplicates", total("duplicate")],
      ["Refused: implausible noise", total("implausible")],
    ];
    $("refused").replaceChildren(
      ...rows.flatMap(([name, number]) => [element("dt", {}, name), element("dd", {}, number === null ? "–" : count(number))]),
    );
  }
}
