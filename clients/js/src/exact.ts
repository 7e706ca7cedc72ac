/** Exact arithmetic. An amount is an integer: a float times 2^1074, so that every float is one. */

const LEAST = 1074;
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
  const shift = Math.max(0, bitLength(amount) - 53);
  const top = amount >> BigInt(shift);
  const rest = up && top << BigInt(shift) < amount ? 1n : 0n;
  return Number(top + rest) * 2 ** (shift - LEAST);
}

export function bitLength(integer: bigint): number {
  return integer ? integer.toString(2).length : 0;
}

/** Fractional bits of `exp`: more than the 60 digits that the wire format asks for. */
const FRACTION = 320n;
export const ONE = 1n << FRACTION;
const HALVINGS = 8n;

/** Return e to the power of numerator / denominator, times `ONE`. */
export function exp(numerator: bigint, denominator = 1n << BigInt(LEAST)): bigint {
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
