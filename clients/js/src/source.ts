/** Sources of random integers, in the order of docs/wire-format.md. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bitLength } from "./exact.js";

/** A source of random bytes. All draws follow from `take`. */
export abstract class Source {
  abstract take(count: number): Uint8Array;

  /** Return a uniform integer of so many bytes. */
  integer(bytes: number): bigint {
    return littleEndian(this.take(bytes));
  }

  /** Whether an event of probability T / 2^64 happens. */
  event(threshold: bigint): boolean {
    return this.events(threshold, 1)[0]!;
  }

  /** Draw events of one probability: first a byte of each, then seven bytes of each tie. */
  events(threshold: bigint, count: number): boolean[] {
    const high = Number(threshold >> 56n);
    const low = threshold & ((1n << 56n) - 1n);
    return Array.from(this.take(count), (byte) => byte < high || (byte === high && low > 0n && this.integer(7) < low));
  }

  /** Return a uniform integer below a bound. */
  below(bound: bigint): bigint {
    const bits = bitLength(bound - 1n);
    if (!bits) return 0n;
    const width = bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
    for (;;) {
      const integer = this.integer(width) & ((1n << BigInt(bits)) - 1n);
      if (integer < bound) return integer;
    }
  }

  /** Return a uniform integer below a bound that is not `own`. */
  other(own: number, bound: number): number {
    const integer = Number(this.below(BigInt(bound - 1)));
    return integer < own ? integer : integer + 1;
  }

  /** Return a uniform choice of so many items, as a mask. */
  subset(members: number, items: number): boolean[] {
    if (!members || members === items) return Array(items).fill(members > 0);
    for (;;) {
      const data = this.take(4 * items);
      const view = new DataView(data.buffer, data.byteOffset);
      const keys = Array.from({ length: items }, (_, i) => view.getUint32(4 * i, true));
      const order = Uint32Array.from(keys).sort();
      if (order[members - 1] !== order[members]) return keys.map((key) => key < order[members]!);
    }
  }
}

/** The browser's or Node's cryptographic entropy. */
export class Entropy extends Source {
  take(count: number): Uint8Array {
    const data = new Uint8Array(count);
    for (let i = 0; i < count; i += 65536) crypto.getRandomValues(data.subarray(i, i + 65536));
    return data;
  }
}

/** Meanings of a stream's bytes. */
export const ATTRIBUTE = 0;
export const ROWS = 1;
export const ANSWER = 2;
/** The class of the stream of a table, which holds the answers of all classes. */
export const EVERY_CLASS = -1;

/** A stream of HMAC-SHA-256 blocks: the same key and fields give the same bytes. */
export class Keyed extends Source {
  #rest = new Uint8Array(0);
  #block = 0;
  readonly #fields: Uint8Array;

  readonly #key: Uint8Array;

  constructor(
    key: Uint8Array,
    digest: Uint8Array,
    attribute: number,
    mode: number,
    purpose: number,
    round: number,
    classes: number[],
  ) {
    super();
    this.#key = key;
    const numbers = [round, ...classes].map((field) => bytesOf(field, 8));
    this.#fields = joined([digest, bytesOf(attribute, 2), bytesOf(mode, 1), bytesOf(purpose, 1), ...numbers]);
  }

  take(count: number): Uint8Array {
    while (this.#rest.length < count) {
      const block = joined([this.#fields, bytesOf(this.#block++, 4)]);
      this.#rest = joined([this.#rest, hmac(this.#key, block)]);
    }
    const data = this.#rest.slice(0, count);
    this.#rest = this.#rest.slice(count);
    return data;
  }
}

/** Return HMAC-SHA-256 with a key of at most 64 bytes. */
export function hmac(key: Uint8Array, text: Uint8Array): Uint8Array {
  const padded = (byte: number) => Uint8Array.from({ length: 64 }, (_, i) => (key[i] ?? 0) ^ byte);
  return sha256(joined([padded(0x5c), sha256(joined([padded(0x36), text]))]));
}

export function joined(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function littleEndian(bytes: Uint8Array): bigint {
  return bytes.reduceRight((integer, byte) => (integer << 8n) | BigInt(byte), 0n);
}

/** Return an integer as so many bytes, the lowest first. */
export function bytesOf(integer: number | bigint, width: number): Uint8Array {
  return Uint8Array.from({ length: width }, (_, i) => Number((BigInt(integer) >> BigInt(8 * i)) & 255n));
}
