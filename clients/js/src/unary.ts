/** Reports of one bit for each value: sue, oue and ss. */

import type { Oracle } from "./law.js";

/** Each bit is one with probability q, the own bit with p. */
export function unary(size: number, own: bigint, other: bigint): Oracle {
  return {
    ...bitwise(size),
    answer(value, _, source) {
      const kept = source.event(own);
      const bits = source.events(other, size);
      bits[value] = kept;
      return packed(bits);
    },
  };
}

/** The report is a set of `members` values, with the own one in it or not. */
export function subsetSelection(size: number, members: number, threshold: bigint): Oracle {
  return {
    ...bitwise(size),
    answer(value, _, source) {
      const inside = source.event(threshold);
      const bits = source.subset(members - Number(inside), size - 1);
      bits.push(bits[value] ?? false); // item v, if it is chosen, stands for the last value
      bits[value] = inside;
      return packed(bits);
    },
  };
}

function bitwise(size: number) {
  return { width: Math.ceil(size / 8), classes: size, classify: (position: number) => position };
}

function packed(bits: boolean[]): Uint8Array {
  const data = new Uint8Array(Math.ceil(bits.length / 8));
  bits.forEach((bit, i) => (data[i >> 3]! |= Number(bit) << (i & 7)));
  return data;
}
