"""Records of unknown strings: their names, each with what the record knows about it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from aggregator.records.crowd_privacy import of_record
from aggregator.records.digits import nan_to_none, rounded
from aggregator.records.findings import GroupTotal, NameFindings, NameResult, WindowFindings
from aggregator.records.kinds import values
from aggregator.records.kinds.answer import ShownAnswer
from aggregator.records.list_intervals import ListedIntervals
from aggregator.records.percentages import percent
from aggregator.records.record import Record
from aggregator.records.rows import OracleRow, RefusedRow
from oracles.consistency import UNBIASED
from oracles.estimate.intervals import LEVEL
from oracles.types import Ints


@dataclass(frozen=True, slots=True)
class NameList:
    """The names of one record. Each list is in the order of the record's values."""

    levels: tuple[int, ...]
    """Number of reports of each level and map."""
    interval_levels: tuple[float, ...]
    """The level of each name's interval: 0.95 if the name was known before the window."""
    names_n: tuple[int, ...]
    """Number of independent reports that tell of each name."""
    first_seen: tuple[int | None, ...]
    """The end of the window that proved each name first. None for a name without one."""
    ambiguous: tuple[str, ...]
    """Names that no map tells apart from others."""
    smallest: float | None
    """The share that a search of the window finds with probability 0.9, or None if it finds none."""


def names_of(record: Record) -> NameList | None:
    """Return the names of a record. None if its values are listed, or if the window is withheld."""
    discover = record.discover()
    if discover is None:
        return None
    return NameList(
        levels=tuple(discover.levels),
        interval_levels=tuple(record.rest()["level"]),
        names_n=tuple(discover.names_n),
        first_seen=tuple(map(discover.first_seen.get, record.values)),
        ambiguous=tuple(discover.ambiguous),
        smallest=discover.smallest,
    )


COLUMNS: dict[str, type] = {"first_seen": int}
"""The columns of a table that only this kind has."""


def fields(window: WindowFindings, total: GroupTotal) -> dict[str, Any]:
    """Return the names of a window of unknown strings."""
    query = window.query
    findings = cast(NameFindings, total.findings)
    oracle = findings.oracle
    n = findings.n

    return {
        "n": n,
        "n_independent": findings.n_independent,
        "size": None,
        "oracle": OracleRow.of(query, oracle),
        "shift_per_fake": rounded(oracle.shift_per_fake(n)) if n else None,
        "answers": query.answers,
        **_name_fields(findings.names),
        "refused": RefusedRow.of(total.reports),
        "quality": {"sum": None, "prior_rejected": False, "risk": {}, "flags": findings.flags},
        # Fewer reports hide a person less, so the level with the fewest reports counts.
        "central": of_record(window, findings.subject.name, min(findings.names.levels)),
    }


def _name_fields(result: NameResult) -> dict[str, Any]:
    """Return the names of a window, by falling share, and what a search of it can show."""
    names = result.names
    # A name that is not kept was first seen in this window, unless this window confirms an earlier proof.
    end_of_first = {text: proof.end for text, proof in result.proofs.items() if proof.is_confirmed(result.start)}
    end_of_first |= {text: sighting.first for text, sighting in result.before.items()}

    return {
        "level": [rounded(name.level) for name in names],
        "values": [name.text for name in names],
        "shares": {UNBIASED: [name.share for name in names]},
        "stderr": [rounded(name.stderr) for name in names],
        "low": [rounded(name.low) for name in names],
        "high": [rounded(name.high) for name in names],
        "discover": {
            "levels": result.levels,
            "names_n": [name.n for name in names],
            "ambiguous": result.ambiguous,
            "first_seen": {name.text: end_of_first.get(name.text, result.end) for name in names},
            "smallest": rounded(result.smallest),
        },
    }


def answers(record: Record, limit: int) -> Iterator[ShownAnswer]:
    """Yield the first names with their shares. A name is proved if its share is above zero."""
    for answer in values.answers(record, limit):
        is_proved = answer.low > 0.0
        yield replace(answer, is_proved=is_proved, is_present=is_proved or answer.is_present)


def rows(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the cells of each name, or of each string that was asked for. Only a name that was found is proved."""
    names = cast(NameList, names_of(record))
    numbers = {**record.shares, "stderr": record.stderr, "low": record.low, "high": record.high}
    lists = {name: column.tolist() for name, column in numbers.items()}
    abouts = zip(record.values, names.interval_levels, names.first_seen, strict=True)
    for index, (value, level, first_seen) in enumerate(abouts):
        cells = {name: nan_to_none(column[index]) for name, column in lists.items()}
        proof = first_seen is not None and record.low[index] > 0.0
        proofs = {"level": level, "proved": bool(proof)}
        yield {"value": value, "first_seen": first_seen, **cells, **proofs, "reason": _reason(cells[UNBIASED], level)}


def _reason(share: float | None, level: float | None) -> str | None:
    """Return why a string has no share. Only a string without maps to ask has no level."""
    if share is not None:
        return None
    if level is None:
        return "the maps of this window are missing or unreadable"
    return "no map tells this string apart from the names found"


def words(record: Record, *, has_search: bool | None) -> list[str]:
    """Return how many names the window has, and which share a search of it can show if there is one."""
    count = len(record.values)
    text = f"{count} name{'' if count == 1 else 's'}"
    if not has_search:
        return [text] if has_search is None else [f"{text} that were found before"]
    smallest = cast(NameList, names_of(record)).smallest
    if smallest is None:
        return [text, "too few reports to find any"]
    return [text, f"a search finds shares from {percent(smallest, 2)}"]


def intervals(record: Record, places: Ints, total: int | None = None) -> ListedIntervals:
    """Return the intervals of the search, and the lowest of their levels."""
    del total
    levels = record.rest()["level"]
    return ListedIntervals(
        min((levels[place] for place in places), default=LEVEL), record.low[places], record.high[places]
    )


# A record lists names like values. No list of names has differences, but two records of names may be compared.
differences = values.differences
