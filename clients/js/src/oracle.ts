/** Oracles: how a position in the domain becomes a report. Every integer that they compare with is checked. */

import { exact, exp, largest, ONE, UNIT, WHOLE } from "./exact.js";
import { NotAllowed } from "./errors.js";
import { hashing } from "./hashing.js";
import type { Oracle } from "./law.js";
import { bytesOf } from "./source.js";
import { MOST, Table } from "./table.js";
import { subsetSelection, unary } from "./unary.js";

/** The integers of a definition, in decimal. */
export type Thresholds = Record<string, string>;

/** Return the oracle of a definition, or refuse it if its thresholds do not fit its epsilon. */
export function oracle(
  name: string,
  epsilon: number,
  size: number,
  thresholds: Thresholds,
  points?: number,
  { subset = 1, rows = name }: { subset?: number; rows?: string } = {},
): Oracle {
  const e = exp(exact(epsilon));
  const lists = (expected: Record<string, bigint>) =>
    Object.entries(expected).every(([key, integer]) => thresholds[key] === String(integer));

  /** Return the listed table of so many buckets, if it fits epsilon. */
  const table = (buckets: number) => {
    if (points === undefined || buckets > MOST) return undefined;
    const listed = new Table(buckets, points, BigInt(thresholds["hi"] ?? 0), BigInt(thresholds["lo"] ?? 0));
    return listed.fits(e) ? listed : undefined;
  };
  const each = points === undefined;

  switch (name) {
    case "grr": {
      const T = largest(size - 1, 1, e);
      const own = table(size);
      if (each ? lists({ T }) : own) return randomizedResponse(size, T, own);
      break;
    }
    case "sue":
    case "oue": {
      const keep = name === "sue" ? largest(1, 1, exp(exact(epsilon), 2n * UNIT)) : WHOLE / 2n;
      const T_q = WHOLE - (name === "sue" ? keep : largest(1, 1, e));
      if (each && lists({ T_p: keep, T_q })) return unary(size, keep, T_q);
      break;
    }
    case "ss":
      // d / (e + 1) and the next integer: the listed threshold tells which of the two it is.
      for (const more of [0, 1]) {
        const least = Number((BigInt(size) * ONE) / (e + ONE));
        const members = Math.min(Math.max(least + more, 1), size - 1);
        const T = largest(size - members, members, e);
        if (each && lists({ T })) return subsetSelection(size, members, T);
      }
      break;
    case "blh":
    case "olh":
    case "full":
    case "short":
    case "hr":
    case "haar":
    case "sub":
      // The number of rows is the one to which the listed integers belong.
      for (let l = 1; l <= (["blh", "hr", "haar"].includes(name) ? 1 : 11); l++) {
        const T = largest(2 ** l - subset, subset, e);
        const own = table(2 ** l);
        if (each ? lists({ T }) : own) return hashing(rows, size, l, T, subset, own, name === "sub");
      }
      break;
    default:
      throw new NotAllowed(`This client has no oracle ${name}. Update it.`);
  }
  throw new NotAllowed(`The thresholds of ${name} do not fit epsilon ${epsilon}.`);
}

/** Answer the value itself, or another one. */
function randomizedResponse(size: number, threshold: bigint, table?: Table): Oracle {
  const width = size <= 256 ? 1 : size <= 65536 ? 2 : 4;
  return {
    width,
    table,
    classes: size,
    classify: (position) => position,
    answer(value, _, source) {
      if (table) value = table.draw(source)[value]!;
      else if (!source.event(threshold)) value = source.other(value, size);
      return bytesOf(value, width);
    },
  };
}
