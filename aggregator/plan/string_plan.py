"""Predictions about unknown strings: which names so many clients show, by length, and what they cost."""

from collections.abc import Iterator

from aggregator.plan.kinds import names as string_outlook
from hubbub.command.options import in_bytes
from oracles.discover.reach import smallest_share
from oracles.mechanisms import NEWEST
from oracles.query import Query, parse
from oracles.query.footprint import INTEGER

LENGTHS = (4, 8, 12, 16, 24, 32, 48)
"""Lengths of names in the table."""
SHARE = 0.01
"""Share of a name for which the table has the people."""


def query_of(length: int, cells: int, epsilon: float, answers: str, budget: float | None) -> Query:
    """Return the query that a file of the newest edition would have."""
    domain = {"discover": "text", "length": length, "cells": cells}
    table: dict[str, object] = {"domain": domain, "epsilon": epsilon, "pane": "1d", "answers": answers}
    table |= {} if budget is None else {"budget": budget}
    return parse({"edition": NEWEST, "queries": {"planned": table}}, "plan", None)["planned"]


def lines(clients: int, query: Query) -> Iterator[tuple[str, bool]]:
    """Yield the texts of `hubbub plan --strings`, and whether each is to be wrapped."""
    strings, cell = query.strings, query.only_oracle
    if strings is None or cell is None:
        return
    way = "answers for life" if query.answers == "life" else f"answers {query.answers}"
    epsilon, length = f"epsilon {cell.epsilon:g}", strings.coding.length
    yield f"{clients:,} clients, an unknown string of {length} letters each, {epsilon}, {way}, {cell.name}", False
    yield "", False
    for text in string_outlook.sentences(strings, cell, clients, "in a window"):
        yield text, True
    yield "", False
    yield f"  letters  smallest share found  people for {SHARE:.0%}", False
    for each in sorted({*LENGTHS, length}):
        other = string_outlook.resized(strings, each)
        share = smallest_share(other, cell, clients)
        need = string_outlook.people(other, cell, SHARE)
        yield f"  {each:7}  {'none' if share is None else string_outlook.percent(share):>20}  {need:>13,}", False
    yield "", False
    report, tally = in_bytes(query.oracle.width), in_bytes(query.oracle.state_size * INTEGER)
    text = f"A report takes {report}, and a tally {tally} for each open pane and partition. "
    yield f"{text}A search takes about {string_outlook.SEARCH_SECONDS:g} s of CPU.", True
    text = "A name is found with probability 0.9 at that share. The shares are those of the default alphabet. "
    yield f"{text}`hubbub check` knows those of a query file.", True
