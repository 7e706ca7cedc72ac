/** A client of hubbub for browsers and Node: one person's answers under local differential privacy. */

export { Client, type Options } from "./client.js";
export type { Answer } from "./definition.js";
export type { Domain, Scale, Value } from "./domain.js";
export { BudgetSpent, DeliveryError, HubbubError, NotAllowed, NotYet, ReportError, StoreError } from "./errors.js";
export type { Token } from "./gateway.js";
export type { KeyStore } from "./key_item.js";
export type { Definition } from "./listing.js";
export type { Pinned } from "./pins.js";
export type { NameStatus, Status } from "./status.js";
