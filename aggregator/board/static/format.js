// Numbers, times and names as people read them.

const LOCALE = "en";
const whole = new Intl.NumberFormat(LOCALE);
const compact = new Intl.NumberFormat(LOCALE, { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => whole.format(number);
export const brief = (number) => (number < 10_000_000 ? whole.format(Math.round(number)) : compact.format(number));

/** A share: 12.34%; three decimals where all is small. */
export function percent(share, digits = 2) {
  if (share === null || share === undefined) return "–";
  const text = (100 * share).toFixed(digits);
  return `${Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−")}%`;
}

/** As many decimals as the numbers are sure to. */
export const digits = (sigma) => (sigma !== null && sigma < 0.0005 ? 3 : 2);

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

/** Ticks in steps of 1, 2 or 5 up to `top`, `most` and the one at 0, or fewer; where none has room, a round one. */
export function ticks(top, most) {
  const power = 10 ** Math.floor(Math.log10(top / most));
  const step = [1, 2, 5, 10].find((factor) => factor * power * most >= top) * power;
  const first = 10 ** Math.floor(Math.log10(top));
  if (step > top) return [0, Math.floor(top / first + 1e-9) * first];
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, at) => at * step);
}

/** A share on an axis, with as many decimals as it has, up to two. */
export const axis = (share) => `${Number((100 * share).toFixed(2))}%`;

const LONGEST = 44;

/** A long name by its two ends: names that belong together differ at the end. */
export const ends = (name) => (name.length <= LONGEST ? name : `${name.slice(0, 14)}…${name.slice(15 - LONGEST)}`);

const MARKS = [".", "-", "_", "/", ":", "?", "&", "="];

/** How many letters of two names are the same, from the first on. */
export function same(one, other) {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length += 1;
  return length;
}

/** Where the names of a list begin to differ, at a separator. */
export function shared(names) {
  if (names.length < 2) return 0;
  const length = Math.min(...names.map((name) => same(names[0], name)));
  return 1 + Math.max(...MARKS.map((mark) => (length ? names[0].lastIndexOf(mark, length - 1) : -1)));
}

/** An element with its attributes and children; text is text, whatever it says. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}
