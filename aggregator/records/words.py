"""The texts of flags and alerts."""

from aggregator.records.subject import PARTIAL_GROUPS

WITHHELD = {
    "small": "withheld: fewer reports than the query's crowd",
    "held": "withheld: held back with a neighbour that holds fewer reports than the query's crowd",
}
"""The flags of records without values, and their reasons in words."""
FLAGS = {
    "partial": "the definition changed within",
    "incomplete": "reports were lost",
    "skewed": "forged reports suspected",
    "ids_overflow": "duplicates possible",
    "cut": "only the largest shares",
    "prior_rejected": "the prior does not suit",
    PARTIAL_GROUPS: "lacks groups with fewer reports than the query's crowd",
}
"""The other flags of records, in words."""
VERBS = {
    "enter": "is now proved {}:",
    "leave": "is no longer proved {}:",
    "surge": "has risen to",
    "fade": "has fallen to",
}
"""The verb of an alert by its kind. The proof replaces the braces."""
PLURAL_VERBS = {
    "enter": "are now proved {}",
    "leave": "are no longer proved {}",
    "surge": "have risen",
    "fade": "have fallen",
}
FIRST_PROOF = "was found for the first time:"
"""The verb of the first proof of an unknown string."""
PLURAL_FIRST_PROOF = "were found for the first time"
