"""The keys of a query file. One row for each key reads, checks, dumps and documents it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oracles.consistency import BASE, METHODS, NORM_SUB
from oracles.discover import FAMILY_ERROR
from oracles.query import settings
from oracles.query.answer_keys import ANSWER_KEYS
from oracles.query.answers import Attribute
from oracles.query.domain import Domain, Ranges, Sets
from oracles.query.draft import REQUIRED, Draft, Key
from oracles.query.groups import Groups
from oracles.query.purpose_keys import PURPOSE_KEYS
from oracles.query.recorder import Recorder
from oracles.query.settings import FLAG, INSTANT, POSITIVE, Threshold, Window, choice, duration, instead, number
from oracles.query.spread import SPREAD
from oracles.types import MAX_EPSILON

if TYPE_CHECKING:
    from oracles.query import Query

_FALLBACK = choice(*(name for name, row in METHODS.items() if name != BASE and not row.fits_a_prior))
"""Methods that can replace a rejected prior: all that fit none."""


@dataclass(frozen=True)
class Settings:
    """The values of keys that a query has as they are. Times are whole seconds."""

    epsilon: float
    pane: int
    lateness: int
    skew: int
    windows: tuple[Window, ...]
    period: int
    starts: int | None
    """Time of the first pane, or None (`from` in the file). The last pane starts before `until`."""
    until: int | None
    emit_every: int | None
    methods: tuple[str, ...]
    fallback: str
    prior: str | None
    """Prior that the definition names, or None for a power law."""
    publish: int | None
    """Number of values in a record, or None for all."""
    crowd: int
    """Least number of reports in any sum over time and groups of all records. It does not bound one record."""
    threshold: Threshold
    require_id: bool
    family_error: float
    alerts_a_day: float
    max_ids: int
    spread: int | None
    """Number of partitions that take frames, or None for all."""
    answers: str
    """Way in which a client repeats itself: life, once or fresh."""
    budget: float
    """Epsilon that a client may spend on this definition in a round."""
    renew: int | None
    """Length of a round, or None. A new round has new noise and new charges."""
    lengthened: bool
    """Whether errors allow for devices that stay in a round longer than `renew`."""
    season: int | None
    """Seconds after which shares are expected to repeat, or None. Slow changes are compared with earlier seasons."""
    domain: Domain | None
    """Domain of the answer, or None for several attributes."""
    sets: Sets
    ranges: Ranges
    """Named ranges of numbers."""
    quantiles: tuple[float, ...]
    """Quantiles of numbers in a record. Empty if no answer is a number."""
    attributes: tuple[Attribute, ...]
    """Attributes in code-point order of their names, then their pairs. Empty for one answer."""
    solution: str | None
    known: tuple[str, ...]
    """Names of unknown strings that are always candidates, as coded."""
    search: int | None
    """Seconds of the shortest window in which names are searched. None unless strings are unknown."""
    groups: Groups
    weights: tuple[float, ...]
    """Shares of the groups in the population, in the order of their values. Empty if they are unknown."""
    compare: tuple[tuple[str, str], ...]
    """Pairs of groups whose differences bring alerts."""
    about: str | None
    """What is asked, for the person who answers. None if the file does not say it, as for the next two."""
    purpose: str | None
    contact: str | None
    public: bool
    """Whether results may be on a public page."""
    recorder: Recorder | None
    """Notes that a device keeps and tells about, or None if the application gives the answers."""


def _until(draft: Draft) -> Any:
    start = draft["from"]
    end = draft["until"]
    if start is not None and end is not None and start >= end:
        table = draft.table
        raise draft.error("until", f"must be later than from ({table['from']}), got {table['until']}")
    return end


def _period(draft: Draft) -> int:
    if "period" not in draft:
        return draft.longest or draft["pane"]
    period: int = draft.read("period", duration(1), None)
    # Definitions in a topic can be older than this check.
    if not draft.standing:
        draft.multiple("period", period, "pane", "pane")
    return period


def _answers(draft: Draft) -> str:
    # Definitions in a topic can be older than the key, and clients of rsfd answered for life then.
    default = "once" if draft.table.get("solution") == "rsfd" and not draft.standing else "life"
    answers: str = draft.read("answers", choice(*settings.ANSWERS), default)
    return answers


def _lengthened(draft: Draft) -> bool:
    is_possible = draft["answers"] == "life" and draft["renew"] is not None
    if "lengthened" in draft and not is_possible:
        raise draft.error("lengthened", 'must be absent: it is for answers = "life" with `renew`')
    # Editions 1 and 2 keep the bytes of their records.
    return bool(draft.read("lengthened", FLAG, is_possible and draft.edition >= 3))


def _prior(draft: Draft) -> str | None:
    fits_a_prior = any(METHODS[name].fits_a_prior for name in draft["methods"])
    if "prior" in draft and not fits_a_prior:
        names = ", ".join(name for name, row in METHODS.items() if row.fits_a_prior)
        raise draft.error("prior", f"must be absent: no method of the query fits a prior, as {names} do")
    if "prior" in draft:
        prior: str = draft.read("prior", choice("power_law", "best"), None)
        return prior
    # A definition in a topic has all of its settings, so without the key it is of edition 1 or 2.
    return "best" if fits_a_prior and draft.edition >= 3 and not draft.standing else None


def _threshold(draft: Draft) -> Threshold:
    if limits(draft):
        return Threshold("significance")
    return settings.read_threshold(draft.table.get("threshold", "significance"), draft.at("threshold"))


def limits(draft: Draft) -> tuple[tuple[float, float], ...]:
    """Return the limits of quantiles, which the threshold of one answer that is a number has."""
    threshold = draft.table.get("threshold")
    if draft["attributes"] or not draft["quantiles"] or threshold in (None, "significance"):
        return ()
    return settings.read_limits(threshold, draft.at("threshold"), draft["domain"].scale)


def _threshold_in_file(query: "Query") -> Any:
    return {settings.quantile_name(share): limit for share, limit in query.limits} or query.threshold.in_file


KEYS = (
    Key(
        "epsilon",
        "privacy of one report, above 0 and at most 16. A larger epsilon gives smaller errors and less privacy",
        number(f"above 0 and at most {MAX_EPSILON:g}", lambda value: 0 < value <= MAX_EPSILON),
        REQUIRED,
        digest=lambda query: query.epsilon,
    ),
    Key(
        "pane",
        "the shortest slice of time that is counted separately",
        duration(1),
        REQUIRED,
        digest=lambda query: query.pane,
    ),
    Key(
        "lateness",
        "longest time from the end of a pane to the log time of its reports. Later reports are refused as late",
        duration(0),
        "5s",
    ),
    Key(
        "skew",
        "longest time from the log's clock to the start of a pane. Reports of later panes are refused as future",
        duration(0),
        "1m",
    ),
    Key(
        "from",
        "start of the first pane: a date, or a date and time, in UTC unless an offset is given. "
        "Reports of earlier panes are refused as expired",
        INSTANT,
        dump=lambda query: query.starts,
    ),
    Key(
        "until",
        "time before which the last pane starts. Reports of later panes are refused as expired",
        INSTANT,
        settle=_until,
    ),
    Key(
        "emit_every",
        'shortest interval between two provisional records of a window, or `"never"`',
        instead(duration(1), "never", None),
        "2s",
    ),
    Key("fallback", "method that replaces `calibrate` when hubbub rejects its prior", _FALLBACK, NORM_SUB),
    Key(
        "crowd",
        "least number of reports in any sum over time and groups that the records of the query reveal "
        "([privacy.md](privacy.md#small-crowds)). It does not bound one record alone. `1` allows any number",
        POSITIVE,
        50,
        # Definitions in a topic can be older than the key, and their records revealed any group.
        settle=lambda draft: 1 if draft.standing and "crowd" not in draft else draft["crowd"],
    ),
    Key(
        "publish",
        'number of values in a record, the most common first; or `"all"`',
        instead(POSITIVE, "all", None),
        100,
    ),
    Key("require_id", "refuses frames without an id", FLAG, False),
    Key(
        "family_error",
        'chance of one false "significant" among all values',
        number("above 0 and below 1", lambda value: 0 < value < 1),
        FAMILY_ERROR,
    ),
    Key("alerts_a_day", "expected number of false alerts per day", number("above 0", lambda value: value > 0), 1.0),
    Key(
        "max_ids",
        "number of frame ids that a worker remembers, per pane and partition. Frames beyond it are counted without a "
        "check, and records get the flag `ids_overflow`. `hubbub check` prints the memory that the ids need",
        POSITIVE,
        250_000,
    ),
    SPREAD,
    Key(
        "windows",
        'a list of `"SIZE"` (tumbling), `"SIZE/STEP"` (hopping) and `"all"` (since the start). '
        "All are multiples of the pane",
        default_text="the pane",
        settle=lambda draft: settings.read_windows(
            draft.table.get("windows", [f"{draft['pane']}s"]), draft.at("windows"), draft["pane"]
        ),
        dump=lambda query: [window.text for window in query.windows],
    ),
    Key(
        "period",
        "a client answers at most once in each aligned period of this length. A multiple of the pane",
        default_text="the longest finite window",
        settle=_period,
        dump=lambda query: f"{query.period}s",
    ),
    Key(
        "renew",
        "time after which noise and charges restart, a multiple of the period. "
        "The privacy guarantee then holds for that time",
        duration(1),
        default_text="never",
        settle=lambda draft: draft.multiple("renew", draft["renew"], "period", "period"),
    ),
    Key(
        "season",
        'time after which shares are expected to repeat, such as `"1d"`: a multiple of the pane. Slow changes are '
        "then compared with the same time of earlier seasons ([alerts](records.md#an-alert))",
        duration(1),
        settle=lambda draft: draft.multiple("season", draft["season"], "pane", "pane"),
        no_strings="unknown strings have no slow changes",
    ),
    Key(
        "answers",
        'how a client repeats its answers: `"life"`, `"once"` or `"fresh"` ([privacy.md](privacy.md))',
        default_text='`"life"`, for rsfd `"once"`',
        settle=_answers,
    ),
    Key(
        "lengthened",
        "the errors allow for devices that stay in a round longer than `renew`, because a new round does not fit their "
        "`max_epsilon` ([estimates.md](estimates.md#rounds-that-devices-lengthen)). For answers for life with `renew`",
        default_text="editions 1 and 2 `false`, edition 3 `true`",
        settle=_lengthened,
        # Only a definition that uses the key has it in the topic, so others keep their bytes.
        dump=lambda query: query.lengthened or None,
    ),
    *ANSWER_KEYS,
    Key(
        "methods",
        "consistent estimates, in addition to the unbiased estimates",
        default_text=f'`["{NORM_SUB}"]`',
        settle=lambda draft: settings.read_methods(draft.table.get("methods", [NORM_SUB]), draft.at("methods")),
        dump=lambda query: list(query.methods) or None,
        no_strings="a record of names has no methods",
        absent=(),
    ),
    Key(
        "prior",
        'prior of `calibrate` and `calibrate_norm_sub`: `"power_law"`, or `"best"`, which also fits other data '
        "([calibrate.md](calibrate.md#a-prior-without-a-family)). Only with one of the two methods",
        default_text='editions 1 and 2 `"power_law"`, edition 3 `"best"`',
        settle=_prior,
        no_strings="a record of names has no methods",
    ),
    Key(
        "threshold",
        "threshold of heavy hitters; or a share such as `0.01`, or `{ count = 1000 }`. "
        "For numbers limits of quantiles, such as `{ p95 = 2000 }`",
        default_text='`"significance"`',
        settle=_threshold,
        dump=_threshold_in_file,
    ),
    *PURPOSE_KEYS,
)
"""All keys. Each reads its value after the keys above it."""


_SETTLED = tuple((key, key.settle) for key in KEYS if key.settle is not None)
_BY_ANSWERS = tuple(key for key in KEYS if key.no_strings or key.only_strings)


def read_keys(draft: Draft) -> None:
    """Read all keys: first each by its rule alone, then those that depend on others."""
    for key in KEYS:
        draft.values[key.name] = key.read(draft)
    unsuitable = {key.name: key.absent for key in _BY_ANSWERS if not key.suits(draft)}
    for key, settle in _SETTLED:
        draft.values[key.name] = unsuitable[key.name] if key.name in unsuitable else settle(draft)


def dump(query: "Query") -> dict[str, Any]:
    """Return the table of a query, as a query file would have it, with all defaults and domain files resolved."""
    values = {key.name: key.in_file(query) for key in KEYS}
    return {name: value for name, value in values.items() if value is not None}


def meaning(query: "Query") -> dict[str, Any]:
    """Return the settings that give a report its meaning, as the digest covers them."""
    values = {key.name: key.digest(query) for key in KEYS if key.digest is not None}
    return {name: value for name, value in values.items() if value is not None}
