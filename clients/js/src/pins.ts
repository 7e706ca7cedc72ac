/** What an application agreed to: bounds of the members of a definition that matter to a person. */

import type { Domain } from "./domain.js";
import { NotAllowed } from "./errors.js";
import { isWhole } from "./limits.js";
import type { Definition, Each } from "./listing.js";
import { own } from "./records.js";

/** Members of an item of `GET /v1/queries`, as `hubbub pin` prints them. */
export interface Pinned {
  /** The largest epsilon, charge of a first answer and budget. */
  epsilon?: number;
  record_charge?: number;
  budget?: number;
  /** The shortest round (null: one for ever), period and pane, in seconds. */
  renew?: number | null;
  period?: number;
  pane?: number;
  /** All others are equal. A missing member equals null. */
  answers?: Definition["answers"];
  noise?: "table" | "each";
  table?: Each<number> | null;
  oracle?: Each<string>;
  buckets?: Each<number> | null;
  solution?: string | null;
  /** The domain, or the domain of each attribute by name. */
  domain?: Domain | Record<string, Domain> | null;
  other?: boolean | null;
  attributes?: Definition["attributes"] | null;
  pairs?: [string, string][] | null;
  groups?: Record<string, string[]> | null;
  digest?: string;
}

const AT_MOST = /^(epsilon|record_charge|budget)$/;
const AT_LEAST = /^(renew|period|pane)$/;
/** Members with the beginnings of their JSON. */
const FORMS = new RegExp(
  [
    `^((epsilon|record_charge|budget|renew|period|pane):\\d`,
    `renew:null$`,
    `answers:"(life|once|fresh)"$`,
    `noise:"(table|each)"$`,
    `digest:"[0-9a-f]{16}"$`,
    `oracle:["{]`,
    `solution:("|null$)`,
    `(table|buckets|domain):([\\d[{]|null$)`,
    `other:(true|false|null)$`,
    `(attributes|groups):({|null$)`,
    `pairs:(\\[|null$))`,
  ].join("|"),
);

/** Throw a TypeError if a pinned member is unknown or malformed. Such a member would bind nothing. */
export function checkPins(pinned: Pinned): void {
  for (const [member, value] of Object.entries(pinned) as [string, unknown][]) {
    const text = `${member}:${JSON.stringify(value)}`;
    const isInRange = value === null || !AT_LEAST.test(member) || isWhole(value, 1);
    if (!FORMS.test(text) || value === 0 || !isInRange) throw new TypeError(`pinned must not have ${text}.`);
  }
}

/** Refuse a definition that a pin does not allow. `charge` is that of a first answer. */
export function comparePins(pinned: Pinned, definition: Definition, charge: number): void {
  const { attributes, name } = definition;
  const domains = attributes && Object.fromEntries(Object.entries(attributes).map(([key, { domain }]) => [key, domain]));
  for (const [member, pin] of Object.entries(pinned) as [string, any][]) {
    let listed: any = own(definition as any, member) ?? null;
    if (member === "record_charge" && typeof listed === "number") listed = Math.max(listed, charge);
    const fits = AT_MOST.test(member)
      ? typeof listed === "number" && listed <= pin
      : AT_LEAST.test(member)
        ? listed === null || (pin !== null && listed >= pin)
        : same(listed, pin) || (member === "domain" && attributes && same(domains, pin));
    if (fits) continue;
    throw new NotAllowed(`${member} of ${name} is ${JSON.stringify(listed)}, pinned is ${JSON.stringify(pin)}.`);
  }
}

/** Whether two values of JSON are equal. The order of an object's keys does not matter. */
export function same(a: unknown, b: unknown): boolean {
  if (!(a instanceof Object) || !(b instanceof Object)) return a === b;
  const keys = Object.keys(a);
  return (
    Array.isArray(a) === Array.isArray(b) &&
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && same(a[key as keyof object], b[key as keyof object]))
  );
}
