// The five steps as elements: the answers, the tosses, the bytes, the observer and the board.

import { count, element, percent } from "../format.js";
import { decodeFrame, hex } from "./frame.js";
import { largestFactor, odds, posterior, priorOf } from "./observer.js";

const SHOWN = 16; // reports of a frame that the page lists

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  tea:
    "M5 9h11v6a5 5 0 0 1-5 5h-1a5 5 0 0 1-5-5zM16 10.5h1.5a2.5 2.5 0 0 1 0 5H16M9 9v5M7.8 14h2.4v2.2H7.8z" +
    "M8 3.5c-1 1 1 1.5 0 2.8M12 3.5c-1 1 1 1.5 0 2.8",
  coffee: "M6.5 8.5h11l-1.300 10.700a1.5 1.5 0 0 1-1.5 1.300H9.300a1.5 1.5 0 0 1-1.5-1.300zM5 8.5h14M7 8.5l.8-3.5h8.400l.8 3.5M7 12.5h10l-.5 4h-9z",
  juice: "M6 8.5h11l-1.200 12H7.200zM12 8.5l1.8-5H17M6.5 13h10M9 16.5h.01M13 17.5h.01",
  water: "M12 3.5c3.600 4.300 5.700 7.300 5.700 10.300a5.700 5.700 0 0 1-11.400 0c0-3 2.100-6 5.700-10.300zM9.300 14.200a2.700 2.700 0 0 0 2.5 2.700",
};

function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", "aria-hidden": "true", class: "icon" })) svg.setAttribute(key, value);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name] ?? "M12 5a7 7 0 1 0 .01 0");
  svg.append(path);
  return svg;
}

export const node = (id) => document.getElementById(id);
const bit = (text, kind) => element("b", { class: kind }, text);

/** Returns an element whose left end and width are parts of its parent. */
function span(kind, left, width, ...children) {
  const box = element("i", { class: kind }, ...children);
  box.style.left = `${100 * left}%`;
  if (width !== null) box.style.width = `${100 * width}%`;
  return box;
}

export function showAnswers(domain, choose) {
  node("answers").replaceChildren(
    ...domain.map((name, value) =>
      element("button", { type: "button", "aria-pressed": "false", onclick: () => choose(value) }, icon(name), element("span", {}, name)),
    ),
  );
}

export function markAnswer(value) {
  [...node("answers").children].forEach((button, at) => button.setAttribute("aria-pressed", String(at === value)));
}

const dash = (text) => element("p", { class: "none" }, text);

export function showNothing() {
  markAnswer(null);
  node("tosses").replaceChildren(dash("Choose an answer, and see the coins fall"));
  node("frame").replaceChildren(dash("Nothing has left your browser"));
  node("observer").replaceChildren(dash("There is no report, so nothing to conclude"));
  node("tries").hidden = node("prior").hidden = true;
}

/** Shows the tosses of one person. */
export function showTosses({ domain, oracle }, value, { report, tosses }) {
  const { kept, bytes } = tosses.truth;
  const place = (bytes[0] + 0.5) / 256;
  const scale = element(
    "div",
    { class: "scale", "aria-hidden": "true" },
    span("part truth", 0, oracle.p, element("span", {}, "truth")),
    span("part other", oracle.p, 1 - oracle.p, element("span", {}, "another answer")),
    span("needle", place, null),
  );
  const verdict = kept ? "So your device tells the truth" : "So your device names another answer";
  const lines = [
    element("p", {}, "True answer: ", bit(domain[value], "secret")),
    scale,
    element("p", {}, `The first random byte is ${bytes[0]} of 256. A device tells the truth with a chance of ${percent(oracle.p, 1)}. ${verdict}.`),
  ];
  if (!kept) lines.push(...otherToss(domain, value, tosses.others, report));
  lines.push(element("p", { class: "result" }, "Your device reports ", bit(domain[report], "report")));
  node("tosses").replaceChildren(...lines);
}

function otherToss(domain, value, draws, report) {
  const sides = domain.map((name, at) => (at === value ? null : element("li", { class: at === report ? "chosen" : "" }, name))).filter(Boolean);
  const refused = draws.length - 1;
  const again = refused === 0 ? "" : ` It was drawn again ${refused === 1 ? "once" : `${refused} times`}, so that all are equally likely.`;
  return [
    element("ul", { class: "die", "aria-label": "The other answers" }, ...sides),
    element("p", {}, `A second random number chooses among the other ${sides.length}.${again}`),
  ];
}

/** Shows the tosses of many people with the same answer. */
export function showManyTosses({ domain, oracle }, value, reports) {
  const said = domain.map((_, at) => reports.filter((report) => report === at).length);
  let left = 0;
  const parts = said.map((number, at) => {
    const width = number / reports.length;
    left += width;
    return span(at === value ? "part truth" : "part other", left - width, width, element("span", {}, domain[at]));
  });
  node("tosses").replaceChildren(
    element("p", {}, `True answer of ${count(reports.length)} people: `, bit(domain[value], "secret")),
    element("div", { class: "scale", "aria-hidden": "true" }, ...parts),
    element(
      "p",
      {},
      `Each device tosses its own coins. ${count(said[value])} tell the truth (expected ${percent(oracle.p, 1)}). The others name ${domain
        .map((name, at) => (at === value ? "" : `${name} ${count(said[at])} times`))
        .filter(Boolean)
        .join(", ")}.`,
    ),
  );
}

/** Shows how many of the reports of single persons were true. */
export function showTries(tries) {
  const line = node("tries");
  line.hidden = tries.length === 0;
  const dots = tries.slice(-24).map((kept) => element("i", { class: kept ? "dot true" : "dot other", "aria-hidden": "true" }));
  const kept = tries.filter(Boolean).length;
  const share = `${count(kept)} of ${count(tries.length)} report${tries.length === 1 ? "" : "s"} told the truth.`;
  const text = `${share} Only this part of the page knows which.`;
  line.replaceChildren(...dots, element("span", {}, text));
}

/** Shows the bytes of a frame, with their meaning. */
export function showFrame({ domain }, frame, note) {
  const fields = decodeFrame(frame, (bytes) => domain[bytes[0]]);
  const reports = fields.at(-1);
  const rest = reports.bytes.length - SHOWN;
  const meaning = rest > 0 ? `${reports.meaning.split(", ").slice(0, 4).join(", ")} and ${count(reports.bytes.length - 4)} more` : reports.meaning;
  const dump = fields.flatMap(({ bytes }, at) => Array.from(bytes.subarray(0, SHOWN), (byte) => element("i", { "data-field": at }, hex([byte]))));
  if (rest > 0) dump.push(element("i", { "data-field": fields.length - 1 }, "…"));
  const rows = fields.map(({ name, bytes, meaning: text }, at) => {
    const isReport = at === fields.length - 1;
    return element(
      "tr",
      isReport ? { class: "own" } : {},
      element("th", { scope: "row" }, element("i", { class: "key", "data-field": at, "aria-hidden": "true" }), name),
      element("td", {}, isReport ? meaning : text),
      element("td", { class: "number" }, `${count(bytes.length)} B`),
    );
  });
  node("frame").replaceChildren(
    element("p", {}, `${count(frame.length)} bytes, to the gateway: `, element("code", {}, "POST /v1/reports")),
    element("div", { class: "dump", "aria-hidden": "true" }, ...dump),
    element(
      "table",
      { class: "fields" },
      element("caption", { class: "hidden" }, "The fields of the bytes"),
      element("thead", { class: "hidden" }, element("tr", {}, ...["Field", "Meaning", "Size"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows),
    ),
    element("p", { class: "sub" }, `No name, no cookie, no true answer. ${note}`),
  );
}

/** Shows the chances of each answer before and after a report, and the limit. The report may be one of many. */
export function showObserver({ domain, oracle, epsilon }, { report, people }, chance) {
  const before = priorOf(domain.length, report, chance);
  const after = posterior(before, report, oracle.p, oracle.q);
  const limit = Math.exp(epsilon);
  const factor = largestFactor(before, after);
  const odd = odds(after[report]) / odds(before[report]);
  const rows = domain.map((name, at) =>
    element(
      "tr",
      at === report ? { class: "own" } : {},
      element("th", { scope: "row" }, name),
      element(
        "td",
        { class: "plot" },
        element("div", { class: "track", "aria-hidden": "true" }, span("bar", 0, after[at]), span("before", before[at], null)),
      ),
      element("td", { class: "number" }, element("span", { class: "was" }, `${percent(before[at], 1)} → `), percent(after[at], 1)),
    ),
  );
  node("observer").replaceChildren(
    element(
      "p",
      {},
      people === 1 ? "The report says " : `One of ${count(people)} reports says `,
      bit(domain[report], "report"),
      `. It is ${factor.toFixed(2)} times as likely from somebody who likes ${domain[report]} as from anybody else.`,
    ),
    element(
      "table",
      { class: "chances" },
      element("caption", { class: "hidden" }, "The chance of each true answer, before and after the report"),
      element(
        "thead",
        { class: "hidden" },
        element("tr", {}, ...["Answer", "Bar", "Before and after"].map((name) => element("th", { scope: "col" }, name))),
      ),
      element("tbody", {}, ...rows),
    ),
    element(
      "p",
      { class: "limit", "data-odds": odd, "data-factor": factor, "data-limit": limit },
      `The odds of ${domain[report]} grow by a factor of ${odd.toFixed(4)}. `,
      element("b", {}, "No report can exceed e", element("sup", {}, String(epsilon)), ` = ${limit.toFixed(4)}`),
      ", whatever the observer knew before.",
    ),
  );
  node("prior").hidden = false;
  node("prior-text").textContent = `Before the report, the observer believed in ${domain[report]} with ${percent(chance, 0)}`;
  node("before").setAttribute("aria-valuetext", percent(chance, 0));
}

/** Shows the estimates of the board. The rows stay, so that their bars move. */
export function showBoard({ domain, oracle }, { n, own, values }, top) {
  node("n").textContent = count(n);
  const mine = node("own");
  if (mine.textContent !== count(own)) mine.classList.add("moved");
  mine.textContent = count(own);
  const box = node("board");
  if (!box.querySelector("table")) box.replaceChildren(boardTable(domain));
  values.forEach((row, at) => {
    const line = box.querySelector(`[data-value="${at}"]`);
    const move = (kind, left, width) => {
      const mark = line.querySelector(`.${kind}`);
      mark.hidden = left === null;
      mark.style.left = `${100 * Math.min(left / top, 1)}%`;
      if (width !== null) mark.style.width = `${100 * Math.max(0, Math.min(width / top, 1 - left / top))}%`;
    };
    move("bar", 0, Math.max(row.share, 0));
    move("whisker", row.low, row.high - row.low);
    move("true", row.truth ?? null, null);
    line.querySelector(".raw").textContent = percent(oracle.q + row.share * (oracle.p - oracle.q), 1);
    line.querySelector(".number").textContent = percent(row.share, 1);
    line.querySelector(".ends").textContent = `${percent(row.low, 1)} to ${percent(row.high, 1)}`;
  });
}

function boardTable(domain) {
  const rows = domain.map((name, at) =>
    element(
      "tr",
      { "data-value": at },
      element("th", { scope: "row" }, name),
      element("td", { class: "raw" }),
      element(
        "td",
        { class: "plot" },
        element(
          "div",
          { class: "track", "aria-hidden": "true" },
          element("i", { class: "bar" }),
          element("i", { class: "whisker" }),
          element("i", { class: "true" }),
        ),
      ),
      element("td", { class: "number" }),
      element("td", { class: "ends" }),
    ),
  );
  const heads = [
    ["hidden", "Answer"],
    ["raw", "Of reports"],
    ["hidden", "Bar"],
    ["number", "Of people"],
    ["ends", "Interval of 95%"],
  ];
  return element(
    "table",
    { class: "shares" },
    element(
      "caption",
      { class: "hidden" },
      "Of each answer, the part of the reports that name it, and the estimated share of the people with its interval",
    ),
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        ...heads.map(([kind, name]) =>
          element(
            "th",
            { scope: "col", class: kind === "hidden" ? "" : kind },
            kind === "hidden" ? element("span", { class: "hidden" }, name) : name,
          ),
        ),
      ),
    ),
    element("tbody", {}, ...rows),
  );
}
