/** Errors of a client. */

export class HubbubError extends Error {
  override name = "HubbubError";
}

/** The client has answered in this period. `due` is the next time, in Unix seconds. */
export class NotYet extends HubbubError {
  override name = "NotYet";

  constructor(
    message: string,
    readonly due: number,
  ) {
    super(message);
  }
}

/** The charge exceeds the query's budget or `maxEpsilon`. */
export class BudgetSpent extends HubbubError {
  override name = "BudgetSpent";
}

/** The gateway's definition is not the one that the application agreed to. */
export class NotAllowed extends HubbubError {
  override name = "NotAllowed";
}

/** The store or its key is missing, damaged or cannot be written. */
export class StoreError extends HubbubError {
  override name = "StoreError";
}

/** The value cannot be counted. */
export class ReportError extends HubbubError {
  override name = "ReportError";
}

/** The gateway refused reports for good, or gave no answer in time. */
export class DeliveryError extends HubbubError {
  override name = "DeliveryError";
}

/** Act, and turn whatever goes wrong into another error. */
export function attempt<T>(act: () => T, wrong: (error: unknown) => HubbubError): T {
  try {
    return act();
  } catch (error) {
    throw wrong(error);
  }
}
