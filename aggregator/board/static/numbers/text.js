// Numbers with their unit as text, with as many decimals as their intervals allow.

import { brief, levelText } from "../format.js";

const LOCALE = "en";
const MOST = 6; // decimals

/** Returns the decimals that show two digits of half an interval. */
export function places(low, high) {
  const half = (high - low) / 2;
  return half > 0 ? Math.min(MOST, Math.max(0, 1 - Math.floor(Math.log10(half)))) : 2;
}

/** Returns a number as text, such as 1,842. */
export const plain = (value, decimals) =>
  value.toLocaleString(LOCALE, { minimumFractionDigits: decimals, maximumFractionDigits: decimals, signDisplay: "negative" }).replace("-", "−");

/** Returns a number with at most three digits that are not zero. */
export const short = (value) => Number(value.toPrecision(3)).toLocaleString(LOCALE).replace("-", "−");

/** Returns a number with its unit, such as 812 ms. */
export const withUnit = (value, decimals, unit) => (unit ? `${plain(value, decimals)} ${unit}` : plain(value, decimals));

/** Returns the level of an interval as the end of a text in brackets. Empty without a level. */
export const levelNote = (level) => (level ? `, ${levelText(level)} interval` : "");

/** Returns a number with its interval, such as 812 ms (790 to 840). */
export function withInterval({ value, low, high, level }, unit) {
  if (value === null) return "–";
  const decimals = places(low, high);
  return `${withUnit(value, decimals, unit)} (${plain(low, decimals)} to ${plain(high, decimals)}${levelNote(level)})`;
}

/** Returns a number for an axis. */
export const axisNumber = (value) => {
  if (Math.abs(value) >= 10_000)
    return new Intl.NumberFormat(LOCALE, { notation: "compact", maximumSignificantDigits: 3 }).format(value).replace("-", "−");
  return Number.isInteger(value) ? brief(value).replace("-", "−") : String(Number(value.toPrecision(3))).replace("-", "−");
};

const NAMES = new Map([
  ["mean", "Mean"],
  ["geometric_mean", "Geometric mean"],
]);

/** Returns the name of an answer for people. */
export const title = (name) => NAMES.get(name) ?? name;
