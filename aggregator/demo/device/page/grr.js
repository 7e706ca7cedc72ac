// Randomised response, byte by byte as docs/wire-format.md defines it. Each answer comes with the tosses that made it.

const WHOLE = 2 ** 64;

export class RandomisedResponse {
  #threshold;

  /** `threshold` is T of the definition: a device tells the truth with the probability T / 2^64. */
  constructor(size, threshold) {
    this.size = size;
    this.width = size <= 256 ? 1 : size <= 65_536 ? 2 : 4;
    this.#threshold = BigInt(threshold);
    this.p = Number(this.#threshold) / WHOLE;
    this.q = (1 - this.p) / (size - 1);
  }

  /**
   * Returns the report of a value. `take` gives random bytes.
   * `tosses.truth` has the bytes that decide about the truth. `tosses.others` has the draws of another answer.
   */
  answer(value, take) {
    const truth = this.#tellsTruth(take);
    if (truth.kept) return { report: value, tosses: { truth, others: [] } };
    const others = this.#drawOther(take);
    const { integer } = others.at(-1);
    return { report: integer < value ? integer : integer + 1, tosses: { truth, others } };
  }

  /** Returns a report as bytes, the lowest first. */
  encode(report) {
    return Uint8Array.from({ length: this.width }, (_, at) => Math.floor(report / 256 ** at) % 256);
  }

  /** Compares the first byte with the first byte of the threshold. Seven more bytes decide a tie. */
  #tellsTruth(take) {
    const high = Number(this.#threshold >> 56n);
    const low = this.#threshold & ((1n << 56n) - 1n);
    const bytes = [...take(1)];
    const isTie = bytes[0] === high && low > 0n;
    if (isTie) bytes.push(...take(7));
    return { bytes, kept: isTie ? littleEndian(bytes.slice(1)) < low : bytes[0] < high };
  }

  /** Draws integers until one is below the number of other answers. */
  #drawOther(take) {
    const bound = this.size - 1;
    const bits = (bound - 1).toString(2).length;
    if (bound === 1) return [{ bytes: [], integer: 0, refused: false }];
    const width = bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
    const draws = [];
    do {
      const bytes = [...take(width)];
      const integer = Number(littleEndian(bytes) & ((1n << BigInt(bits)) - 1n));
      draws.push({ bytes, integer, refused: integer >= bound });
    } while (draws.at(-1).refused);
    return draws;
  }
}

function littleEndian(bytes) {
  return bytes.reduceRight((integer, byte) => (integer << 8n) | BigInt(byte), 0n);
}
