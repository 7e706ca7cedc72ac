// The conclusions of an observer: Bayes' rule for one report.

/** Returns the chances of all answers after a report, from those before. p and q are the chances of a true and of another answer. */
export function posterior(prior, report, p, q) {
  const weights = prior.map((chance, value) => chance * (value === report ? p : q));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

/** Returns a prior in which one answer has a chance, and the others share the rest. */
export const priorOf = (size, value, chance) => Array.from({ length: size }, (_, at) => (at === value ? chance : (1 - chance) / (size - 1)));

export const odds = (chance) => chance / (1 - chance);

/** Returns the largest factor by which the odds of one answer against another have changed. */
export function largestFactor(before, after) {
  const factors = before.map((chance, value) => after[value] / chance);
  return Math.max(...factors) / Math.min(...factors);
}
