/** The definitions of queries, as a gateway lists them. */

import type { Domain } from "./domain.js";
import type { Thresholds } from "./oracle.js";

/** A value, or one for each attribute by its name. */
export type Each<T> = T | Record<string, T>;

/** An item of `GET /v1/queries`. */
export interface Definition {
  name: string;
  digest: string;
  epsilon: number;
  pane: number;
  period: number;
  answers: "life" | "once" | "fresh";
  budget: number;
  renew?: number | null;
  domain?: Domain;
  other?: boolean | null;
  attributes?: Record<string, { domain: Domain; other?: boolean }>;
  /** Names of the two attributes of each pair. */
  pairs?: [string, string][];
  solution?: string | null;
  oracle: Each<string>;
  buckets?: Each<number> | null;
  /** Of sub: how many buckets a report names, and the family of the maps. */
  subset?: number;
  rows?: string;
  table?: Each<number> | null;
  thresholds: Each<Thresholds[string]> | Record<string, Thresholds>;
  edges?: number[] | Record<string, number[]> | null;
  /** The name of the groups, and their values. */
  groups?: Record<string, string[]> | null;
  width: number;
}
