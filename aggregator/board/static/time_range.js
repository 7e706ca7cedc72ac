// The time that the charts show: a preset up to the newest window, or two free ends. The address has both.

import { select } from "./controls.js";

const MOST = 10_000; // windows of a chart
const FREE = "free";
const WINDOWS = "windows";
const PRESETS = [
  ["", "all windows"],
  [WINDOWS, "10 windows"],
  ["900", "15 min"],
  ["3600", "1 h"],
  ["21600", "6 h"],
  ["86400", "1 d"],
  ["604800", "1 week"],
  [FREE, "two ends"],
];
const $ = (id) => document.getElementById(id);

/** Returns a time as a field for local times has it, and the seconds of such a text. */
const fieldOf = (seconds) => new Date(1000 * (seconds - 60 * new Date(1000 * seconds).getTimezoneOffset())).toISOString().slice(0, 19);
const secondsOf = (text) => Math.floor(new Date(text).getTime() / 1000);

export class TimeRange {
  #ends = null; // of the charts on the page, if they have two
  #step = 0;

  /** `choose` changes the address. */
  constructor(address, choose) {
    this.address = address;
    $("range").addEventListener("change", ({ target }) => choose(this.#chosen(target.value)));
    for (const name of ["since", "until"]) {
      $(name).addEventListener("change", ({ target }) => target.value && choose({ [name]: secondsOf(target.value) }));
    }
    $("previous").addEventListener("click", () => choose(this.#previous()));
    $("zone").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
  }

  #preset() {
    if (this.address.has("since") || this.address.has("until")) return FREE;
    return PRESETS.find(([value]) => value === this.address.get("range"))?.[0] ?? "";
  }

  /** Returns the parameters of the API for the charts, up to the window at which the page is paused. */
  parameters(end, step, at) {
    const preset = this.#preset();
    const last = at === null ? end : Number(at);
    const length = preset === WINDOWS ? 10 * step : Number(preset) || 0;
    const free = { from: Number(this.address.get("since")) || 0, to: Number(this.address.get("until")) || last };
    this.#step = step;
    this.#ends = preset === FREE ? [free.from, free.to] : length ? [last - length, last] : null;
    if (preset === FREE) return { from: free.from, to: free.to + 1, limit: MOST };
    const from = length ? { from: Math.max(0, last - length + (preset === WINDOWS ? 1 : 0)), limit: MOST } : {};
    return { to: at && Number(at) + 1, ...from };
  }

  /** Fills the controls. */
  show(end) {
    const preset = this.#preset();
    select($("range"), PRESETS, preset);
    $("ends").hidden = preset !== FREE;
    $("previous").disabled = this.#ends === null;
    const [since, until] = this.#ends ?? [end, end];
    for (const [name, value] of [["since", since], ["until", until]]) {
      if (document.activeElement !== $(name)) $(name).value = value ? fieldOf(value) : "";
    }
  }

  #chosen(preset) {
    if (preset !== FREE) return { range: preset || null, since: null, until: null };
    const [since, until] = this.#ends ?? [secondsOf(new Date()) - 3600, secondsOf(new Date())];
    return { range: null, since, until };
  }

  /** Returns the ends of the stretch before, which is as long. */
  #previous() {
    const [since, until] = this.#ends;
    const length = Math.max(until - since, this.#step);
    return { range: null, since: Math.max(0, since - length), until: until - length };
  }
}
