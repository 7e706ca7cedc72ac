/** Unknown strings: the cells of a text that nobody listed. */

import { sha256 } from "@noble/hashes/sha2.js";
import { utf8 } from "./records.js";
import { bytesOf, joined, type Source } from "./source.js";

/** A domain of texts that nobody listed. */
export interface Texts {
  discover: "text" | "bytes";
  /** Number of symbols. */
  length: number;
  alphabet?: string;
  /** There are 2^cells cells. */
  cells: number;
  normal: string;
}

/** Maps tell of a whole text. Levels tell of its first chunks. */
const MAPS = 4;
/** Slots of a level, and of a map. */
const PER_LEVEL = 5;
const PER_MAP = 3;

export class Strings {
  readonly #domain: Texts;
  readonly #digest: Uint8Array;
  /** The alphabet, or nothing if bytes are symbols. */
  readonly #alphabet: string[] | undefined;
  readonly #base: number;
  /** Number of symbols of each chunk. */
  readonly #chunks: number[] = [];

  constructor(domain: Texts, digest: Uint8Array) {
    this.#domain = domain;
    this.#digest = digest;
    this.#alphabet = domain.alphabet === undefined ? undefined : [...domain.alphabet];
    this.#base = 1 + (this.#alphabet?.length ?? 255);
    for (let left = domain.length; left > 0; left -= this.#chunks.at(-1)!) {
      const limit = this.#chunks.length ? 2048 : 2 ** domain.cells;
      let symbols = 1;
      while (symbols < left && this.#base ** (symbols + 1) <= limit) symbols++;
      this.#chunks.push(symbols);
    }
  }

  /** Return the number of each chunk of a text. */
  numbers(text: string): number[] {
    const symbols = this.#symbols(text);
    let at = 0;
    return this.#chunks.map((count) => {
      let number = 0;
      for (const end = at + count; at < end; at++) number = number * this.#base + (symbols[at] ?? 0);
      return number;
    });
  }

  /** Return the cell of a text in a part, by the numbers of its chunks. */
  cell(numbers: number[], part: number): number {
    return numbers.slice(0, part + 1).reduce((cell, number, i) => {
      const fields = [bytesOf(i, 2), bytesOf(number, 4), bytesOf(part >> 3, 1)];
      const hash = sha256(joined([this.#digest, ...fields]));
      const word = new DataView(hash.buffer, hash.byteOffset).getUint32(4 * (part & 7), true);
      return cell ^ word % 2 ** this.#domain.cells;
    }, 0);
  }

  /** Draw the part that a device tells of. */
  part(source: Source): number {
    const levels = this.#chunks.length;
    const slot = Number(source.below(BigInt(PER_LEVEL * levels + PER_MAP * MAPS))) - PER_LEVEL * levels;
    return levels + Math.floor(slot / (slot < 0 ? PER_LEVEL : PER_MAP));
  }

  #symbols(text: string): number[] {
    const { normal } = this.#domain;
    if (normal !== "none") text = text.normalize();
    if (normal === "NFC lower") text = text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
    const alphabet = this.#alphabet;
    if (!alphabet) return Array.from(utf8(text), (byte) => byte || 255);
    return Array.from(text, (character) => alphabet.indexOf(character) + 1 || alphabet.length);
  }
}
