"""A comparison of a query file with its newest edition, and with the active queries of a topic."""

from collections.abc import Iterator

from hubbub.definitions.catalog import Definitions, changes
from hubbub.definitions.editions import lines_that_keep, with_active_settings
from hubbub.texts import up
from oracles.mechanisms.choice import total
from oracles.query import File, Query


def savings(file: File, newer: File) -> Iterator[str]:
    """Yield what the newest edition would save for each query of an older file."""
    for name, query in file.queries.items():
        new = newer.queries[name]
        if new.digest == query.digest:
            continue
        parts = []
        if new.record_charge != query.record_charge:
            parts.append(f"charge {up(new.record_charge)} instead of {up(query.record_charge)}")
        if query.only_oracle is not None and new.only_oracle is not None:
            ratio = total(new.only_oracle) / total(query.only_oracle)
            parts.append(f"need {ratio:.2f} times the people for the same error")
            parts.append(f"use {new.only_oracle!r}")
        parts = parts or ["use tables"]
        parts = parts or ["use tables"]
        yield f"{name}: edition = {newer.edition} would {', '.join(parts)}. It has another digest, so use a new name."
    if all(newer.queries[name].digest == query.digest for name, query in file.queries.items()):
        yield f"edition = {newer.edition} would change no query. Write it before all tables."
    else:
        yield 'docs/operating.md, "Change the edition of a file", has the steps.'


def compare(file: File, definitions: Definitions, default: float) -> Iterator[str]:
    """Yield the differences between a file and the active queries, and who would fall silent.

    `default` is the epsilon that a device allows for all queries.
    """
    update = changes(file, definitions, (), "")
    if update.behind:
        yield "The topic has a later revision of the file. Workers ignore this file."
        return
    active = definitions.active
    for name in update.missing:
        yield f"{name}: is active, but the file lacks it. A starting worker exits with code 2."
    for name, lines in update.edition_lines.items():
        yield f"{name}: only the edition changes its digest. A starting worker exits with code 2. To keep it: {lines}."
    charges = sum(query.record_charge * query.charges for query in active.values())
    more = 0.0
    for name, query in file.queries.items():
        old = active.get(name)
        if old is None:
            yield f"{name}: is new. Its first answer charges {up(query.record_charge)}."
            more += query.record_charge * query.charges
        elif query.digest == old.digest:
            yield f"{name}: keeps its digest {old.digest.hex()}."
        elif with_active_settings(query, old) is not query and name not in update.edition_lines:
            yield (
                f"{name}: keeps its digest {old.digest.hex()}, because workers keep the active settings. Add "
                f"these lines to the clients' copy of the file: {lines_that_keep(old)}."
            )
        else:
            more += query.record_charge * query.charges
            yield from _new_digest(old, query)
    if more:
        total_charge = charges + more
        yield (
            f"A device that has answered all active queries is charged {up(charges)} so far, and {up(more)} more: "
            f"{up(total_charge)} in all. "
            + (
                f"This is within the SDK's default max_epsilon of {default:g}, so no device falls silent."
                if total_charge <= default
                else f"Devices whose max_epsilon is below that fall silent for the new queries. The SDK's default is "
                f"{default:g}."
            )
        )


def _new_digest(old: Query, new: Query) -> Iterator[str]:
    until = "for ever" if old.renew is None else f"until their round of {old.renew:,} s ends"
    yield (
        f"{new.name}: its digest would change from {old.digest.hex()} to {new.digest.hex()}. Reports of the old one "
        f"are stale then. Devices that answered were charged {up(old.record_charge)}, and are charged "
        f"{up(new.record_charge)} again. Those whose max_epsilon does not allow both fall silent {until}."
    )
