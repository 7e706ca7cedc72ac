// The keys of the page, and the sheet that lists them. A key does nothing while somebody types.

import { element } from "./format.js";

const OFF = "hubbub-keys-off"; // people who speak to their computer press keys by accident
const ROWS = "#all-rows th a, #rows .value button, #names .name button, #quantities .answer button";
const TYPING = "input:not([type=checkbox]):not([type=radio]), select, textarea";
const $ = (id) => document.getElementById(id);

const isVisible = (node) => node.offsetParent !== null;

/** Moves the focus to the next row of the table, or to the one before. */
function move(step) {
  const rows = [...document.querySelectorAll(ROWS)].filter(isVisible);
  const at = rows.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1);
  rows[next]?.focus();
}

function search() {
  [$("find-query"), $("find"), $("ask-text")].find((field) => field && isVisible(field))?.focus();
}

/** Key, what it does in words, and the act. */
const KEYS = [
  ["?", "show this sheet", () => $("keys").showModal()],
  ["/", "search: a query, a value or a name", search],
  ["j", "next row", () => move(1)],
  ["k", "row before", () => move(-1)],
  ["g", "all queries", () => (location.hash = "")],
  ["t", "theme: as the system, light or dark", () => $("theme").click()],
];

function isOff() {
  try {
    return localStorage.getItem(OFF) !== null;
  } catch {
    return false; // a browser may forbid the store
  }
}

function turn(isOn) {
  try {
    if (isOn) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
  } catch {
    // Without a store the keys stay on.
  }
}

/** Fills the sheet, and listens to the keys. */
export function listenToKeys() {
  const rows = KEYS.map(([key, text]) => element("tr", {}, element("th", { scope: "row" }, element("kbd", {}, key)), element("td", {}, text)));
  $("key-rows").replaceChildren(...rows);
  $("keys-on").checked = !isOff();
  $("keys-on").addEventListener("change", ({ target }) => turn(target.checked));
  $("show-keys").addEventListener("click", () => $("keys").showModal());
  document.addEventListener("keydown", (event) => {
    const act = KEYS.find(([key]) => key === event.key)?.[2];
    const isTyping = event.target.matches?.(TYPING) || event.ctrlKey || event.metaKey || event.altKey;
    if (!act || isTyping || $("keys").open || isOff()) return;
    event.preventDefault();
    act();
  });
}
