/** Exact arithmetic. An amount is an integer: a float times 2^1074, so that every float is one. */

const LEAST = 1074;
/** The amount of 1. */
export const UNIT = 1n << 1074n;
const MANTISSA = 52n;

/** Return a float above 0 as an amount. */
export function exact(value: number): bigint {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  const integer = bits.getBigUint64(0);
  const exponent = integer >> MANTISSA;
  const mantissa = integer & ((1n << MANTISSA) - 1n);
  return exponent ? (mantissa | (1n << MANTISSA)) << (exponent - 1n) : mantissa;
}

/** Return the float next to an amount, below it or (with `up`) above it. */
export function rounded(amount: bigint, up: boolean): number {
  return float(amount, 53, (top, rest) => (up ? top + rest : top));
}

/** Return the float nearest to an amount. A bit below all others decides ties, as the bits that are cut off would. */
export function nearest(amount: bigint): number {
  return float(amount, 64, (top, rest) => top | rest);
}

/** Return an amount as a float, from its top bits and whether others follow. */
function float(amount: bigint, bits: number, join: (top: bigint, rest: bigint) => bigint): number {
  const shift = Math.max(0, bitLength(amount) - bits);
  const top = amount >> BigInt(shift);
  return Number(join(top, BigInt(top << BigInt(shift) < amount))) * 2 ** (shift - LEAST);
}

const DIGITS = 12;

/** Return an amount as a decimal text, rounded up to 12 digits. */
export function decimal(amount: bigint): string {
  let digits: bigint;
  // One more place than the first digit allows: the loop finds the right one.
  let places = DIGITS + 1 - Math.floor((bitLength(amount) - LEAST - 1) * Math.log10(2));
  do {
    places--;
    digits = up(amount * ten(places), ten(-places) * UNIT);
  } while (digits > ten(DIGITS));
  if (places <= 0) return String(digits * ten(-places));
  const text = String(digits).padStart(places + 1, "0");
  return `${text.slice(0, -places)}.${text.slice(-places)}`.replace(/\.?0*$/, "");
}

/** Return the amount of a decimal text. */
export function fromDecimal(text: string): bigint {
  const [whole, part = ""] = text.split(".");
  return up(BigInt(whole + part) * UNIT, ten(part.length));
}

const ten = (power: number) => 10n ** BigInt(Math.max(0, power));
const up = (numerator: bigint, denominator: bigint) => (numerator + denominator - 1n) / denominator;

export function bitLength(integer: bigint): number {
  return integer ? integer.toString(2).length : 0;
}

/** Fractional bits of `exp`: more than the 60 digits that the wire format asks for. */
const FRACTION = 320n;
export const ONE = 1n << FRACTION;
const HALVINGS = 8n;

/** Return e to the power of numerator / denominator, times `ONE`. */
export function exp(numerator: bigint, denominator = UNIT): bigint {
  const x = (numerator << FRACTION) / (denominator << HALVINGS);
  let sum = ONE;
  for (let term = ONE, i = 1n; term; i++) {
    term = (term * x) / (i << FRACTION);
    sum += term;
  }
  for (let i = 0n; i < HALVINGS; i++) sum = (sum * sum) >> FRACTION;
  return sum;
}

/** 2^64: a probability T of 2^64 is an integer T. */
export const WHOLE = 1n << 64n;

/** Return the largest T with T losing <= e winning (2^64 - T). `e` is times `ONE`. */
export function largest(losing: number, winning: number, e: bigint): bigint {
  const share = e * BigInt(winning);
  return (share << 64n) / (share + BigInt(losing) * ONE);
}
