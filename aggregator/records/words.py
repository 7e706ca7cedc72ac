"""The texts of flags and alerts in one table. The terminal reads it, and the board's API sends it to the page."""

from dataclasses import dataclass
from typing import Annotated, Literal

from aggregator.records.subject import IMPOSSIBLE, PARTIAL_GROUPS


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """The texts of a flag or of an alert."""

    name: Annotated[str, {"description": "The flag, the kind of an alert, or what a first window says of its values"}]
    about: Literal["withheld", "flag", "alert"]
    short: Annotated[str, {"description": "In a line of the terminal"}]
    text: Annotated[str, {"description": "On the page. {crowd} is the query's crowd, {proof} what is proved"}]
    plural: Annotated[str | None, {"description": "Of several values; null for a flag"}] = None
    tag: Annotated[str | None, {"description": "One word; null for a flag"}] = None


def _by_name(*words: Word) -> dict[str, Word]:
    return {word.name: word for word in words}


WITHHELD = _by_name(
    Word(
        name="small",
        about="withheld",
        short="withheld: fewer reports than the query's crowd",
        text="withheld: fewer than {crowd} reports",
    ),
    Word(
        name="held",
        about="withheld",
        short="withheld: held back with a neighbour that holds fewer reports than the query's crowd",
        text="withheld: held back with a neighbour that holds fewer than {crowd}",
    ),
)
"""The flags of records without values."""
FLAGS = _by_name(
    Word(
        name="partial",
        about="flag",
        short="the definition changed within",
        text="The definition changed within this window.",
    ),
    Word(
        name="incomplete",
        about="flag",
        short="reports were lost",
        text="Kafka deleted reports before a worker could count them.",
    ),
    Word(
        name="skewed",
        about="flag",
        short="forged reports suspected",
        text="The noise of these reports differs from that of honest clients. Somebody may be sending forged reports.",
    ),
    Word(
        name=IMPOSSIBLE,
        about="flag",
        short="no crowd has these counts, so nothing is proved",
        text="No crowd has these counts, whatever its people answer, so nothing is proved here.",
    ),
    Word(
        name="ids_overflow",
        about="flag",
        short="duplicates possible",
        text="Too many frames carried an id. Some duplicates may be counted.",
    ),
    Word(
        name="cut",
        about="flag",
        short="only the largest shares",
        text="This record would be larger than 8 MiB. It shows the values with the largest shares.",
    ),
    Word(
        name="prior_rejected",
        about="flag",
        short="the prior does not suit",
        text="The fitted prior does not suit this window. The fallback method replaces it.",
    ),
    Word(
        name=PARTIAL_GROUPS,
        about="flag",
        short="lacks groups with fewer reports than the query's crowd",
        text="The total lacks groups that have too few reports to be shown.",
    ),
)
"""The other flags of records."""
ALL_FLAGS = (*FLAGS, *WITHHELD)
"""All flags, in the order of a record."""
ALERTS = _by_name(
    Word(
        name="enter",
        about="alert",
        short="is now proved {proof}:",
        text="is now proved {proof}",
        plural="are now proved {proof}",
        tag="proved",
    ),
    Word(
        name="leave",
        about="alert",
        short="is no longer proved {proof}:",
        text="is no longer proved {proof}",
        plural="are no longer proved {proof}",
        tag="not proved",
    ),
    Word(name="surge", about="alert", short="has risen to", text="has risen", plural="have risen", tag="risen"),
    Word(name="fade", about="alert", short="has fallen to", text="has fallen", plural="have fallen", tag="fallen"),
    Word(
        name="arms",
        about="alert",
        short="differs between two groups",
        text="differs between two groups",
        plural="differ between two groups",
        tag="differs",
    ),
    Word(
        name="found",
        about="alert",
        short="was found for the first time:",
        text="was found for the first time",
        plural="were found for the first time",
        tag="found",
    ),
    Word(
        name="baseline",
        about="alert",
        short="frequent from the start",
        text="was frequent from the start",
        plural="were frequent from the start",
        tag="baseline",
    ),
    Word(
        name="first_search",
        about="alert",
        short="found in the first search",
        text="was found in the first search",
        plural="were found in the first search",
        tag="found",
    ),
)
"""What has become of a value, by the kind of its alert. The last two are of the values of a first window."""
WORDS = (*WITHHELD.values(), *FLAGS.values(), *ALERTS.values())


def alert_word(kind: str, *, is_name: bool, is_baseline: bool = False) -> Word:
    """Return the texts of an alert. The first proof of a name has its own, because nobody listed the name."""
    if is_baseline:
        return ALERTS["first_search" if is_name else "baseline"]
    return ALERTS["found" if is_name else kind]
