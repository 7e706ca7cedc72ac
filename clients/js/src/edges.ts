/** The edges of the bins of numbers. They follow from the scale, and a gateway cannot choose others. */

import type { Scale } from "./domain.js";
import { NotAllowed } from "./errors.js";
import { bitLength, exact, nearest } from "./exact.js";

/** Units in the last place by which a listed edge may differ. */
const TOLERANCE = 4;
/** Bits of a float with more digits: a positive integer times a power of two. */
const BITS = 110;
type Long = [integer: bigint, exponent: number];

/** Refuse listed edges that are not those of the scale. */
export function checkEdges(scale: Scale, listed: number[] | undefined): void {
  const { bins, low, high } = scale;
  const isScale =
    Number.isInteger(Math.log2(bins)) &&
    [low, high].every(Number.isFinite) &&
    low < high &&
    (scale.scale === "linear" || (scale.scale === "log" && low > 0));
  const edges = isScale && Array.isArray(listed) && listed.length === bins + 1 && edgesOf(scale);
  const isGood = (edge: number, i: number) =>
    Number.isFinite(edge) && !(edge <= listed![i - 1]!) && isNear(edge, (edges as number[])[i]!);
  if (!edges || !listed!.every(isGood)) throw new NotAllowed("The edges of the bins are not those of the scale.");
}

function edgesOf({ bins, low, high, scale }: Scale): number[] {
  if (scale === "linear") {
    return Array.from({ length: bins + 1 }, (_, i) => {
      const total = signed(low) * BigInt(bins - i) + signed(high) * BigInt(i);
      return total < 0n ? -nearest(-total) / bins : nearest(total) / bins;
    });
  }
  const edges: Long[] = [];
  edges[0] = long(low);
  edges[bins] = long(high);
  // The middle edge of a block of bins is the geometric mean of its ends.
  for (let half = bins / 2; half >= 1; half /= 2) {
    for (let i = half; i < bins; i += 2 * half) edges[i] = mean(edges[i - half]!, edges[i + half]!);
  }
  return edges.map(([integer, exponent]) => (Number(integer) / 2 ** BITS) * 2 ** (exponent + BITS));
}

function long(value: number): Long {
  const amount = exact(value);
  const excess = BigInt(bitLength(amount) - BITS);
  return [excess < 0n ? amount << -excess : amount >> excess, Number(excess) - 1074];
}

function mean([a, i]: Long, [b, j]: Long): Long {
  const odd = (i + j) & 1;
  const square = (a * b) << BigInt(odd);
  // One step of Newton doubles the bits of the float.
  const root = BigInt(Math.round(Math.sqrt(Number(square))));
  return [(root + square / root) >> 1n, (i + j - odd) / 2];
}

function isNear(edge: number, own: number): boolean {
  const unit = Math.max(0, bitLength(exact(Math.abs(own))) - 53);
  const difference = (signed(edge) - signed(own)) >> BigInt(unit);
  return difference <= TOLERANCE && difference >= -TOLERANCE;
}

const signed = (value: number) => BigInt(Math.sign(value)) * exact(Math.abs(value));
