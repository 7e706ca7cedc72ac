"""The results and costs of a query of unknown strings, in words: the names that a search will find.

A name is found with probability 0.9 if its share is `reach` times the standard error of a rare value, were all
clients asked about one hashed value. `benchmarks/string_lengths.py` measured the reach for four lengths.
"""

from collections.abc import Iterator
from typing import cast
from unicodedata import normalize

from aggregator.counting.checkpoint_plan import BYTES_PER_S, INTERVAL
from aggregator.merging.windows import ENCODED_BYTES
from aggregator.plan.kinds import values
from aggregator.plan.kinds.audience import Audience
from aggregator.records.needed_people import people_of_names
from hubbub.command.options import in_bytes
from hubbub.definitions.versions import open_panes
from hubbub.texts import percent
from oracles.discover import Coding, Strings
from oracles.discover.cell_hash import MAP_SLOTS, MAPS
from oracles.discover.reach import smallest_share
from oracles.mechanisms import NEWEST
from oracles.mechanisms.protocol import Oracle
from oracles.query import Query, parse
from oracles.query.footprint import INTEGER

REPORTS = "reports of each map"
"""The reports of which `crowd` are needed, in words."""
LISTED = 6.6
"""The reach of names that are known before, if all clients are asked for one of a million names."""
SHORTER = 8
"""Length of the shorter names in the outlook."""
CROWDS = (10**4, 10**6, 10**8)
KEEPING = "A name has an alert once two searches over different reports have proved it, or one that is as sure."
SEARCH_SECONDS = 0.5
"""CPU seconds of a search, once the words of its hash are known (another 0.5 s)."""
LENGTHS = (4, 8, 12, 16, 24, 32, 48)
"""Lengths of names in the table of `hubbub plan --strings`."""
SHARE = 0.01
"""Share of a name for which the table has the people."""
DAY = 86_400
Z = 1.959964


def sigma(cell: Oracle, n: int) -> float:
    """Return the standard error of a rare value with `n` reports."""
    return float(cell.noise(n).sigma)


def resized(strings: Strings, length: int) -> Strings:
    """Return the strings of another length."""
    coding = strings.coding
    return Strings(type(coding)(length, coding.alphabet, coding.normal), strings.cells, strings.digest)


def shows(subject: Audience) -> str:
    """Return the smallest share of a name that a search usually finds, in words."""
    share = smallest_share(*_hashing(subject.query), subject.n)
    return "no name" if share is None else f"names above {percent(share)}"


def comparison(_subject: Audience, _n: int) -> Iterator[str]:
    """Yield nothing: an error alone says little about names. `errors` has their smallest shares."""
    yield from ()


def warnings(subject: Audience) -> Iterator[str]:
    """Yield the warnings about the hashed values that stand for names."""
    yield from values.warnings(subject)


def table(_: Audience) -> Iterator[tuple[str, ...]]:
    """Yield nothing: the people depend on the lengths of names more than on the way to answer."""
    yield from ()


def sentences(subject: Audience) -> Iterator[str]:
    """Yield in words what a number of people will show."""
    yield from search_sentences(*_hashing(subject.query), subject.clients, subject.span)


def _hashing(query: Query) -> tuple[Strings, Oracle]:
    """Return the hash of unknown strings, and the oracle of their cells. Every query of this kind has both."""
    return cast(Strings, query.strings), cast(Oracle, query.only_oracle)


def search_sentences(strings: Strings, cell: Oracle, clients: int, span: str) -> Iterator[str]:
    """Yield in words what so many people will show."""
    share = smallest_share(strings, cell, clients)
    units = _units(strings)
    length = strings.coding.length
    start = f"With {clients:,} people {span} at epsilon {cell.epsilon:g}"
    if share is None:
        need = people_of_names(strings, cell, 0.5)
        yield f"{start} you will find no names of {length} {units}. To find one that 50% use you need {need:,} people."
        return

    text = f"{start} you will find names of {length} {units} that more than {percent(share)} use"
    if length > SHORTER:
        share_of_short_names = smallest_share(resized(strings, SHORTER), cell, clients)
        if share_of_short_names is not None:
            text += f", of {SHORTER} {units} {percent(share_of_short_names)} (with length = {SHORTER})"
    yield f"{text}."

    # A question for any string is answered by the reports of the maps alone.
    goal = share / 2
    maps = MAPS * MAP_SLOTS / strings.slots
    width = Z * sigma(cell, max(1, int(clients * maps)))
    need = people_of_names(strings, cell, goal)
    yield (
        f"For half of that share you need {need:,} people. If the names are known before, a list of a million shows "
        f"those that more than {percent(LISTED * sigma(cell, clients))} use. You know the "
        f"share of any string that you ask for to within {percent(width)}."
    )


def errors(query: Query) -> Iterator[tuple[str, ...]]:
    """Yield the numbers of reports of CROWDS, and the smallest shares that are found with them."""
    strings, cell = _hashing(query)
    shares = (smallest_share(strings, cell, n) for n in CROWDS)
    yield "reports", *(f"{n:,}" for n in CROWDS)
    yield "smallest share found", *(">1" if share is None else f"{share:.3g}" for share in shares)


def query_of(length: int, cells: int, epsilon: float, answers: str, budget: float | None) -> Query:
    """Return the query that a file of the newest edition would have."""
    # The pane only has to be long enough for strings. No share depends on it.
    domain = {"discover": "text", "length": length, "cells": cells}
    table: dict[str, object] = {"domain": domain, "epsilon": epsilon, "pane": "1d", "answers": answers}
    if budget is not None:
        table["budget"] = budget
    return parse({"edition": NEWEST, "queries": {"planned": table}}, "plan", None)["planned"]


def plan_lines(clients: int, query: Query) -> Iterator[tuple[str, bool]]:
    """Yield the texts of `hubbub plan --strings`, and whether each is to be wrapped."""
    strings, cell = _hashing(query)
    way = "answers for life" if query.answers == "life" else f"answers {query.answers}"
    length = strings.coding.length
    about = f"an unknown string of {length} letters each, epsilon {cell.epsilon:g}, {way}, {cell.name}"
    yield f"{clients:,} clients, {about}", False
    yield "", False
    for text in search_sentences(strings, cell, clients, "in a window"):
        yield text, True

    yield "", False
    yield f"  letters  smallest share found  people for {SHARE:.0%}", False
    for row_length in sorted({*LENGTHS, length}):
        strings_of_row = resized(strings, row_length)
        share = smallest_share(strings_of_row, cell, clients)
        need = people_of_names(strings_of_row, cell, SHARE)
        yield f"  {row_length:7}  {'none' if share is None else percent(share):>20}  {need:>13,}", False

    yield "", False
    report = in_bytes(query.oracle.width)
    tally = in_bytes(query.oracle.state_size * INTEGER)
    text = f"A report takes {report}, and a tally {tally} for each open pane and partition. "
    yield f"{text}A search takes about {SEARCH_SECONDS:g} s of CPU.", True
    text = "A name is found with probability 0.9 at that share. The shares are those of the default alphabet. "
    yield f"{text}`hubbub check` knows those of a query file. {KEEPING}", True


def smallest_part(query: Query) -> float:
    """Return the part of the reports that one map has."""
    return MAP_SLOTS / _hashing(query)[0].slots


def small_parts(_: Query) -> int:
    """Return 1, for one map that stands for all."""
    return 1


def counts(query: Query) -> str:
    """Return what a client tells, in words."""
    strings, _ = _hashing(query)
    alphabet = "" if strings.coding.alphabet is None else f" of an alphabet of {strings.coding.size}"
    return (
        f"one unknown string per client, the first {strings.coding.length} {_symbols(strings)}{alphabet}, by one of "
        f"{strings.levels} levels or {MAPS} maps of {1 << strings.cells:,} cells"
    )


def costs(query: Query, partitions: int) -> Iterator[str]:
    """Yield the memory, the disk and the CPU of a query of unknown strings."""
    tally = query.oracle.state_size
    yield (
        f"Memory: {in_bytes(tally * INTEGER)} for each open pane and partition, "
        f"{in_bytes(partitions * open_panes(query) * tally * INTEGER)} in all."
    )
    changelog, snapshots = written(query, partitions)
    yield (
        f"Written: up to {in_bytes(changelog)} a day in the changelog, which keeps the newest of each tally, and up to "
        f"{in_bytes(snapshots)} a day of snapshots."
    )
    yield f"CPU: {SEARCH_SECONDS:g} s for each search, {query.searches_a_day:,.3g} searches a day. {KEEPING}"


def written(query: Query, partitions: int) -> tuple[int, int]:
    """Return the most bytes a day in the changelog and in snapshots, of one worker with all partitions."""
    tally = partitions * query.oracle.state_size * ENCODED_BYTES
    return int(min(BYTES_PER_S, tally / INTERVAL) * DAY), tally * DAY // query.pane


def notices(query: Query) -> Iterator[str]:
    """Yield warnings about unknown strings."""
    yield (
        "a string can itself be personal: a name, an address, a token in a URL. Remove such parts on the device before "
        f"the client answers, and keep `crowd`: names are listed only if their estimate is at least {query.crowd} "
        "reports. `crowd` does not apply to strings that somebody asks for"
    )
    if not any(map(query.is_searched, query.windows)):
        yield (
            f"no window is as long as search = {query.search} s, so no name is ever found; lower `search`, or add the "
            'window "all"'
        )

    # A larger alphabet can need more levels, and then each level has fewer reports to find a name with.
    coding = _hashing(query)[0].coding
    absent = _absent_symbols(coding)
    if absent:
        yield f'normal = "{coding.normal}" never makes these symbols of the alphabet: {absent}'


def _absent_symbols(coding: Coding) -> str:
    """Return the symbols that no text has in the normal form."""
    normal = coding.normal
    symbols = coding.alphabet or ""
    return "".join(
        symbol
        for symbol in symbols
        if (normal != "none" and normalize("NFC", symbol) != symbol)
        or (normal.endswith("lower") and symbol.isascii() and symbol.isupper())
    )


def _units(strings: Strings) -> str:
    # Without an alphabet a level codes bytes, and one letter of UTF-8 may take four of them.
    return "bytes" if strings.coding.alphabet is None else "letters"


def _symbols(strings: Strings) -> str:
    return "bytes" if strings.coding.alphabet is None else "characters"
