"""The texts of flags."""

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
