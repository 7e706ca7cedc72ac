"""Keys of a query that say what its clients answer, and by which oracle."""

from typing import TYPE_CHECKING, Any

from oracles.mechanisms import NOISES
from oracles.mechanisms.families import FAMILIES
from oracles.mechanisms.sub import MOST_BUCKETS, MOST_MEMBERS
from oracles.query import answers, selection, settings, strings
from oracles.query.domain import Domain, Ranges, Sets
from oracles.query.draft import Draft, Key
from oracles.query.groups import Groups, read_comparisons, read_groups, read_weights, weight_table
from oracles.query.recorder import read_recorder
from oracles.query.settings import FLAG, Rule, choice, whole

if TYPE_CHECKING:
    from oracles.query import Query

_BUCKETS = tuple(1 << rows for rows in range(1, MOST_BUCKETS.bit_length()))
_NO_GROUPS = "a query of unknown strings has no groups"


def _oracle_in_file(query: "Query") -> str | list[str]:
    names = query.oracle_names
    return names[0] if len(set(names)) == 1 else list(names)


def _oracle_in_digest(query: "Query") -> str | dict[str, str] | None:
    return query.by_attribute(query.oracle_names)


def _sets_in_file(query: "Query") -> dict[str, Any]:
    def texts(sets: Sets, domain: Domain) -> dict[str, list[str]]:
        return {name: [domain.name(position) for position in positions] for name, positions in sets}

    if query.domain:
        return texts(query.sets, query.domain)
    return {single.name: texts(single.sets, single.domain) for single in query.attributes if single.sets}


def _ranges_in_file(query: "Query") -> dict[str, Any] | None:
    def ends(ranges: Ranges) -> dict[str, list[float]]:
        return {name: list(pair) for name, pair in ranges}

    if query.domain:
        return ends(query.ranges) or None
    return {single.name: ends(single.ranges) for single in query.attributes if single.ranges} or None


def _comparisons(draft: Draft) -> tuple[tuple[str, str], ...]:
    if "compare" not in draft:
        return ()
    # Only reports since the start add up, so only there a comparison can hold at every look.
    if all(window.kind != "all" for window in draft["windows"]):
        raise draft.error("compare", 'must be absent without "all" among the windows, in which groups are compared')
    return read_comparisons(draft.table["compare"], draft.at("compare"), draft["groups"])


ANSWER_KEYS = (
    Key(
        "other",
        'adds a last value "(other)" for answers outside the domain',
        FLAG,
        default_text="true for named values, false with a recorder",
        # A recorder knows no other answer than those of its domain.
        settle=lambda draft: False if "recorder" in draft and draft["other"] is None else draft["other"],
        digest=lambda query: query.domain and query.domain.meaning.get("other"),
    ),
    Key(
        "buckets",
        "buckets of `olh`, `full`, `short` or `sub`: a power of two. "
        "Fewer than the best number make answers for life fit the budget",
        Rule(f"a power of two from 2 to {_BUCKETS[-1]}", lambda value: type(value) is int and value in _BUCKETS),
        default_text="the best for epsilon",
        dump=lambda query: max(filter(None, query.fewer), default=None),
        digest=lambda query: query.buckets,
    ),
    Key(
        "subset",
        f"number of buckets that a report of `sub` names, from 1 to {MOST_MEMBERS}",
        whole(f"a whole number from 1 to {MOST_MEMBERS}", 1, MOST_MEMBERS),
        default_text="the best for epsilon",
        digest=lambda query: query.subset,
    ),
    Key(
        "rows",
        "family of the random maps from values to buckets of `sub`: `full`, `short` or `line` "
        "([choosing.md](choosing.md#random-subsets-of-buckets))",
        choice(*FAMILIES),
        default_text="the best for epsilon",
        dump=lambda query: query.rows,
        digest=lambda query: query.rows,
    ),
    Key(
        "noise",
        "how the answers of a client to different values depend on one another: one table for all, or noise for each "
        '([privacy.md](privacy.md#answering-again-and-again)). `"table"` needs an oracle with at most 8 buckets, or '
        "`grr` with at most 8 values",
        choice(*NOISES),
        default_text='edition 1 `"each"`; edition 2 `"table"` for answers for life, if the oracle allows it',
    ),
    Key(
        "domain",
        "the values of one answer: a list, a size, a file, [a scale of numbers](#numbers) or "
        "[unknown strings](#unknown-strings)",
        default_text="required, or `attributes`",
        settle=answers.read_answer,
        dump=lambda query: query.domain and query.domain.in_file,
        digest=lambda query: query.domain and query.domain.meaning["domain"],
    ),
    Key(
        "attributes",
        "several answers of a client, each with its domain",
        settle=answers.read_attributes,
        dump=lambda query: {single.name: single.domain.in_file for single in query.singles} or None,
        digest=lambda query: {single.name: single.domain.meaning for single in query.singles} or None,
    ),
    Key(
        "solution",
        "how a client answers several attributes: `spl`, `smp` or `rsfd` ([privacy.md](privacy.md))",
        default_text='`"smp"`',
        settle=answers.read_solution,
        digest=lambda query: query.solution,
    ),
    Key(
        "pairs",
        "[pairs](#pairs) of two attributes that are counted together",
        default_text="none",
        settle=answers.read_pairs,
        dump=lambda query: query.pairs or None,
        digest=lambda query: query.pairs or None,
    ),
    Key(
        "recorder",
        'the notes that a device keeps, and tells as one answer about the period before: `{ keep = "count" }` '
        "([behaviour.md](behaviour.md)). Needs `period`",
        default_text="none",
        settle=read_recorder,
        dump=lambda query: query.recorder and query.recorder.in_file,
        digest=lambda query: query.recorder and query.recorder.meaning,
        no_strings="a recorder needs a domain that lists its values, or a scale",
    ),
    Key(
        "budget",
        "epsilon that a client may spend on this definition in a round, for a whole record",
        default_text="4 epsilon",
        settle=selection.read_budget,
    ),
    Key(
        "table",
        "the number t of [a table](wire-format.md#tables): a larger one charges more, and protects better against "
        "people who know one answer. For several attributes an object by name",
        default_text="the one with the smallest charge",
        settle=selection.read_points,
        digest=lambda query: query.table,
    ),
    Key(
        "oracle",
        "`grr`, `sue`, `oue`, `blh`, `olh`, `hr`, `ss`, `full`, `short` or `sub`. `auto` considers the oracles that "
        "fit the budget. Among those near the smallest error it chooses the one with the fewest bytes: within 10% in "
        "edition 1. In edition 2 it takes the fewest bytes within 2% of the smallest possible error, or else the "
        "smallest error, and a report has at most 8 bytes. From edition 3 on it may take `sub`",
        default_text='`"auto"`, for attributes `"adaptive"`',
        settle=selection.read_oracle,
        dump=_oracle_in_file,
        digest=_oracle_in_digest,
    ),
    Key(
        "sets",
        'named subsets whose share is in each record: `{ social = ["a.example"] }`',
        settle=answers.read_sets,
        dump=_sets_in_file,
    ),
    Key(
        "ranges",
        "named ranges of numbers whose share is in each record: `{ slow = [1000, 60000] }`",
        settle=answers.read_ranges,
        dump=_ranges_in_file,
        no_strings="ranges are for numbers",
        absent={"": ()},
    ),
    Key(
        "quantiles",
        "quantiles of [numbers](#numbers) in each record",
        default_text=f"`{list(settings.QUANTILES)}`",
        settle=answers.read_quantiles,
        dump=lambda query: list(query.quantiles) or None,
        no_strings="quantiles are for numbers",
        absent=(),
    ),
    Key(
        "groups",
        '[groups](#groups) by which reports are counted, such as `{ platform = ["ios", "android", "web"] }`',
        default_text="none",
        settle=lambda draft: read_groups(draft.table["groups"], draft.at("groups")) if "groups" in draft else Groups(),
        dump=lambda query: query.groups.table,
        no_strings=_NO_GROUPS,
        absent=Groups(),
    ),
    Key(
        "weights",
        "known shares of the groups in the population, which sum to 1: `{ ios = 0.28, android = 0.72 }`. "
        "A value without a weight has 0",
        default_text="none",
        settle=lambda draft: (
            read_weights(draft.table["weights"], draft.at("weights"), draft["groups"]) if "weights" in draft else ()
        ),
        dump=lambda query: weight_table(query.groups, query.weights),
        no_strings=_NO_GROUPS,
        absent=(),
    ),
    Key(
        "compare",
        'at most 64 pairs of groups: `[["ios", "android"]]`. An [alert](records.md#alerts-of-groups) tells that a pair '
        'is proved to differ since the start. Only with the window `"all"`',
        default_text="none",
        settle=_comparisons,
        dump=lambda query: [list(pair) for pair in query.compare] or None,
        no_strings=_NO_GROUPS,
        absent=(),
    ),
    Key(
        "normal",
        'normal form of unknown strings: `"NFC"`, `"NFC lower"` (ASCII letters become small) or `"none"`',
        default_text='text `"NFC lower"`, bytes `"none"`',
        dump=lambda query: query.strings and query.strings.coding.normal,
        # The domain's part of the digest holds it, because it belongs to the coding.
        digest=lambda _: None,
        only_strings=True,
    ),
    Key(
        "known",
        "strings that the search always considers, at most 4,096. Two that are coded alike are an error",
        default_text="none",
        settle=lambda draft: strings.read_known(
            draft.table.get("known", []), draft.at("known"), draft["domain"].discovery
        ),
        dump=lambda query: query.strings and list(query.known),
        only_strings=True,
        absent=(),
    ),
    Key(
        "search",
        "hubbub searches names in `all` and in windows of at least this length. A multiple of the pane",
        default_text="the longest finite window, else 1 hour",
        settle=lambda draft: strings.read_search(
            draft.table.get("search"), draft.at("search"), draft["pane"], draft.longest
        ),
        dump=lambda query: query.search and f"{query.search}s",
        only_strings=True,
    ),
)
"""The keys of answers. Each reads its value after the keys above it."""
