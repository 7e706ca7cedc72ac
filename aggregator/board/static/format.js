// Numbers, times and names as text.

const LOCALE = "en";
const whole = new Intl.NumberFormat(LOCALE);
const compact = new Intl.NumberFormat(LOCALE, { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => whole.format(number);
export const brief = (number) => (number < 10_000_000 ? whole.format(Math.round(number)) : compact.format(number));

/** Returns a share as text, such as 12.34%. */
export function percent(share, digits = 2) {
  if (share === null || share === undefined) return "–";
  const text = (100 * share).toFixed(digits);
  return `${Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−")}%`;
}

/** Returns a share within 0 and 1. An unbiased share, and its noise, may lie outside. */
export const inside = (share) => (share === null || share === undefined ? share : Math.min(Math.max(share, 0), 1));

const short = new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: 4 });

/** Returns a number with its unit as text, such as 2,310 ms. */
export const quantity = (number, unit) => (number === null ? "–" : `${short.format(number)}${unit === null ? "" : ` ${unit}`}`);

/** Returns the decimals of a percentage with this standard error. */
export const digits = (sigma) => (sigma !== null && sigma < 0.0005 ? 3 : 2);

/** Returns the level of intervals as text, with two digits of the part that misses. */
export function levelText(level) {
  const places = Math.max(1, 1 - Math.floor(Math.log10(100 * (1 - level))));
  return `${Number((100 * level).toFixed(places))}%`;
}

export function duration(seconds) {
  for (const [length, unit] of [[86_400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= length && seconds % length === 0) return `${seconds / length} ${unit}`;
  }
  return `${seconds} s`;
}

export function windowName({ kind, size, step }) {
  if (kind === "all") return "since the start";
  return kind === "hopping" ? `${duration(size)}, every ${duration(step)}` : duration(size);
}

export function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en-GB");
}

export function moment(seconds) {
  const date = new Date(1000 * seconds);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString("en-CA")} `;
  return day + clock(seconds);
}

/** Returns ticks from 0 to `top` in steps of 1, 2 or 5: at most `most`, and the one at 0. If no step fits, one round tick. */
export function ticks(top, most) {
  const power = 10 ** Math.floor(Math.log10(top / most));
  const step = [1, 2, 5, 10].find((factor) => factor * power * most >= top) * power;
  const first = 10 ** Math.floor(Math.log10(top));
  if (step > top) return [0, Math.floor(top / first + 1e-9) * first];
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, at) => at * step);
}

/** Returns a share for an axis, with at most two decimals. */
export const axis = (share) => `${Number((100 * share).toFixed(2))}%`;

const LONGEST = 44; // letters of a name

const letters = Intl.Segmenter && new Intl.Segmenter(LOCALE);

/** Returns the place at `at`, or before it, where a cut splits no emoji and no letter with its accents. */
export const boundary = (text, at) => letters?.segment(text).containing(at)?.index ?? at;

/** Shortens a long name in the middle, because related names often differ at the end. */
export const ends = (name) =>
  name.length <= LONGEST ? name : `${name.slice(0, boundary(name, 14))}…${name.slice(boundary(name, name.length + 15 - LONGEST))}`;

const MARKS = [".", "-", "_", "/", ":", "?", "&", "="];

/** Returns the number of equal letters at the start of two names. */
function commonLength(one, other) {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length += 1;
  return length;
}

/** Returns the length of the common start of a list of names, up to a separator. */
export function prefixLength(names) {
  if (names.length < 2) return 0;
  const length = Math.min(...names.map((name) => commonLength(names[0], name)));
  return 1 + Math.max(...MARKS.map((mark) => (length ? names[0].lastIndexOf(mark, length - 1) : -1)));
}

/** Returns a new element with its attributes and children. Strings become text, never markup. */
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}
