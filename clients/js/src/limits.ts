/** The limits that an application sets for a device: maxEpsilon in any stretch of a time. */

export interface Limits {
  maxEpsilon: number;
  /** Seconds after the last use of a noise at which its charge expires. Infinity: charges never expire. */
  per: number;
}

const DEVICE_EPSILON = 8;
const SHORTEST = 60;
/** The longest time of a definition or a limit, in seconds. */
export const LONGEST = 1e9;
const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Return the limits of an application. `per` is a whole number of seconds, or a text such as "30d". */
export function limitsOf(maxEpsilon: number = DEVICE_EPSILON, per?: number | string | null): Limits {
  if (!(typeof maxEpsilon === "number" && maxEpsilon > 0 && maxEpsilon < Infinity)) {
    throw new TypeError(`maxEpsilon must be a number above 0, not ${maxEpsilon}.`);
  }
  if (per == null) return { maxEpsilon, per: Infinity };
  const [, count, unit] = /^(\d{1,10})([smhd])$/.exec(String(per)) ?? [];
  const seconds = typeof per === "string" ? Number(count) * UNITS[unit!]! : per;
  if (!isWhole(seconds, SHORTEST)) {
    throw new TypeError(`per must be whole seconds from ${SHORTEST} to ${LONGEST}, or such as "30d", not ${per}.`);
  }
  return { maxEpsilon, per: seconds };
}

export function isWhole(value: unknown, least: number, most: number = LONGEST): value is number {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}
