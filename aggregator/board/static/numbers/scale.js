// The scale of numbers: where a number lies between its two ends, and the ticks between them.

/** Returns the position of a number on a scale, from 0 to 1. */
export function position({ low, high, scale }, value) {
  const inside = Math.min(Math.max(value, low), high);
  return scale === "log" ? Math.log(inside / low) / Math.log(high / low) : (inside - low) / (high - low);
}

/** Returns round numbers on a scale, at most `most`. */
export const ticks = (numbers, most) => (numbers.scale === "log" ? powers : steps)(numbers, Math.max(2, most));

function steps({ low, high }, most) {
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].find((factor) => (high - low) / (factor * power) <= most) * power;
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

function powers({ low, high }, most) {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  for (const factors of [[1, 2, 5], [1, 3], [1]]) {
    const all = [];
    for (let power = first; power <= last; power += 1) all.push(...factors.map((factor) => Number((factor * 10 ** power).toPrecision(12))));
    const inside = all.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
    if (inside.length && inside.length <= most) return inside;
  }
  const every = Math.ceil((last - first + 1) / most);
  return Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at)).filter(
    (value, at) => at % every === 0 && value >= low && value <= high,
  );
}
