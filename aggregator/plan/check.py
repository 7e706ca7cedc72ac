"""The command `hubbub check`, which validates a query file and prints promises, errors and costs."""

import argparse
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from aggregator.plan import asked_check, check_text, facts, visibility
from aggregator.plan.check_table import short_lines
from aggregator.plan.fleet import Assumptions
from aggregator.plan.visibility import sum_of_charges
from aggregator.process.state_limit import StateLimit, add_max_state
from hubbub.command.idle_options import given, refuse_idle
from hubbub.command.options import add_kafka, add_queries, parser_of, whole
from hubbub.command.report import Report, add_format
from hubbub.command.retirement import add_retire, retired
from hubbub.definitions.catalog import Definitions, changes
from hubbub.definitions.editions import lines_that_keep, with_active_settings
from hubbub.definitions.key_formats import early_keys
from hubbub.definitions.spread_change import NOTICE
from hubbub.moments import utc
from hubbub.texts import few, up
from oracles.errors import HubbubError, ParameterError
from oracles.mechanisms import NEWEST
from oracles.mechanisms.choice import total
from oracles.query import File, Query, load_file
from oracles.query.lifetime import DEVICE_EPSILON
from oracles.query.settings import nearest

HELP = """\
Validate a query file. Print a table with a line for each query, the charge of a device that answers
all of them, and warnings. With the name of a query, print all about it: what it counts, the promise to
its clients, the errors and the cost. --long prints this for all queries. With --clients, say what these
people will show. With --topic, compare the file with the active queries of a broker. The command sends
nothing.

example:
  $ cat hubbub.toml
  edition = 2
  [queries.homepage]
  domain  = ["a.example", "b.example"]
  epsilon = 1.0
  pane    = "10s"
  $ hubbub check hubbub.toml
  $ hubbub check hubbub.toml homepage --partitions 12

sigma is the standard error of a share near zero. A share of `detectable` is significant with
probability 0.9. Both hold for a window with that many reports, each from another client.
The memory of worker and board is right within a factor of 1.5. Several workers share theirs.
Exit code: 0 valid, perhaps with warnings; 2 an invalid file, more than --max-state, or more groups than
a worker can publish in time; 3 Kafka cannot be reached; 4 with --topic: a worker would not start with
this file, the topic is missing, or a definition in it cannot be read; 1 with --asked: the newest list lacks
a query."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)

    report = Report("check", options)
    return report.run(lambda: _check(report, options))


def _check(report: Report, options: argparse.Namespace) -> int:
    """Print everything about the file, and return the exit code."""
    file = load_file(options.file)
    queries = file.queries.values()
    if options.facts:
        report.say("".join(f"{line}\n" for line in facts.table(queries)))
        return 0

    report.members |= {
        "file": str(options.file),
        "queries": [],
        "together": [],
        "edition": [],
        "topic": None,
    }
    if options.name not in (None, *file.queries):
        advice = nearest(options.name, [*file.queries])
        raise ParameterError(f"{options.file}: there is no query {options.name!r}; {advice}")
    if not options.long and options.name is None:
        report.say("".join(f"{line}\n" for line in short_lines(file, options.partitions, options.clients)))
    for query in queries:
        # With a name the answer has this query alone, also as JSON.
        if options.name not in (None, query.name):
            continue
        lines = [*check_text.lines(query, options.partitions, options.clients)]
        if options.long or options.name is not None:
            report.say("\n".join(lines) + "\n\n")
        report.members["queries"].append({"name": query.name, "digest": query.digest.hex(), "lines": lines})

    sums = [sum_of_charges(queries, DEVICE_EPSILON), *check_text.processes(queries, options.partitions)]
    report.members["together"] = sums
    if options.long:
        _add(report, "together", sums)
    newer = [*_newer(file, options.file)]
    report.members["edition"] = newer
    if options.name is not None:
        newer = []
    elif newer and not options.long and len(queries) > 1:
        newer = [f"edition = {NEWEST} would change the file; --long says how"]
    report.say(label_lines("edition", newer))
    reasons: list[str] = []
    if options.topic:
        definitions = _definitions(options)
        _add(report, "topic", [*compare(file, definitions, DEVICE_EPSILON, options.retire)])
        reasons = start_refusals(file, definitions, options.retire)

    asked_faults: list[str] = []
    if options.asked is not None:
        newest_list = asked_check.newest_list(options.asked)
        _add(report, "asked", [*asked_check.asked_texts(queries, newest_list, time.time())])
        asked_faults = [*asked_check.faults(queries, newest_list)]

    faults = StateLimit(options.partitions, options.max_state).faults(queries)
    faults += [fault for query in queries if (fault := visibility.group_refusal(query))]
    report.fault(*(f"{options.file}: {fault}" for fault in (*faults, *reasons, *asked_faults)))
    if faults:
        return 2
    if reasons:
        return 4
    return 1 if asked_faults else 0


def _add(report: Report, name: str, texts: list[str]) -> None:
    """Print texts behind their name, and add them to the report."""
    report.say(label_lines(name, texts))
    report.members[name] = texts


def label_lines(name: str, texts: list[str]) -> str:
    """Return texts behind their name, line by line."""
    return "".join(f"{line}\n" for line in check_text.label(name, *texts))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("check", HELP)
    targets = "query file, which takes precedence over --queries, and the name of the only query to print, in full"
    parser.add_argument("targets", nargs="*", metavar="FILE|NAME", help=targets)
    parser.add_argument("--long", action="store_true", help="print promises, errors and costs of all queries")
    add_queries(parser)
    partitions = f"number of partitions of the reports (default: {Assumptions.partitions})"
    parser.add_argument(
        "--partitions", type=whole(1, 10_000), default=Assumptions.partitions, metavar="N", help=partitions
    )
    clients = "number of clients of each query; prints which windows will usually show values"
    parser.add_argument("--clients", type=whole(1, 10**12), metavar="N", help=clients)

    parser.add_argument("--facts", action="store_true", help="print the facts for an impact assessment, and no more")
    asked = "folder of the lists of what is asked; exit with 1 if the newest one lacks a query of the file"
    parser.add_argument("--asked", type=Path, metavar="DIR", help=asked)
    add_max_state(parser)
    purpose = "compare the file with the active queries in the topic of definitions; --kafka does the same"
    parser.add_argument("--topic", action="store_true", help=purpose)
    add_kafka(parser, embedded=True)
    add_retire(parser)
    add_format(parser)

    options = parser.parse_args(arguments)
    options.retire = retired(options)
    options.file, options.name = _targets(options.targets, parser)
    if options.long and options.name is not None:
        parser.error("--long prints all queries; leave it or the name out")
    if options.format == "json":
        refuse_idle(parser, arguments, ("--long",), "with --format json, which has all of it")
    if options.file is not None:
        refuse_idle(parser, arguments, ("--queries",), f"with the file {options.file}")
    options.file = options.file or options.queries

    if options.facts:
        texts = ("--long", "--format", "--partitions", "--clients", "--max-state")
        idle = (*texts, "--asked", "--topic", "--kafka", "--retire")
        refuse_idle(parser, arguments, idle, "with --facts")

    # The parsed options do not tell a given --kafka from its default.
    options.topic |= bool(given(parser, arguments, ["--kafka"]))
    if not options.topic:
        refuse_idle(parser, arguments, ("--retire", "--prefix", "--embedded"), "without --topic")
    return options


def _targets(words: list[str], parser: argparse.ArgumentParser) -> tuple[str | None, str | None]:
    """Return the query file and the name of a query among the arguments. A path has a dot or a slash, or exists."""
    if len(words) > 2:
        parser.error("give a file and the name of one query at most")
    if len(words) == 2:
        return words[0], words[1]
    if not words:
        return None, None
    word = words[0]
    is_file = Path(word).exists() or "/" in word or word.endswith(".toml")
    return (word, None) if is_file else (None, word)


def _newer(file: File, path: str) -> Iterator[str]:
    """Yield what the newest edition would change."""
    if file.edition >= NEWEST:
        return

    # A newer edition can refuse settings that an older one took.
    try:
        newer = load_file(path, edition=NEWEST)
    except HubbubError as error:
        yield f"edition = {NEWEST} would refuse the file: {error}"
        return

    yield from savings(file, newer)


def _definitions(options: argparse.Namespace) -> Definitions:
    """Return the definitions of the topic."""
    # A check without a topic must run in an install without a client of Kafka.
    import asyncio

    from hubbub.definitions.follower import Follower
    from hubbub.kafka.clients import partitions
    from hubbub.kafka.settings import QUERIES, Kafka

    async def definitions() -> Definitions:
        kafka = Kafka.read(options)
        # Kafka's client would look for a missing topic until it looks as if no broker answered.
        await partitions(kafka, QUERIES)
        async with Follower(kafka) as follower:
            return follower.definitions

    return asyncio.run(definitions())


def start_refusals(file: File, definitions: Definitions, retire: Collection[str] = ()) -> list[str]:
    """Return why a worker with this file and these names for `--retire` would not start, or could not read a record."""
    if definitions.formats.excess:
        return [definitions.formats.excess]

    update = changes(file, definitions, retire, "")
    reasons = [*early_keys(file.queries.values(), definitions.formats)]
    reasons += [f"record {record.key!r} of the topic queries: {record.fault}" for record in definitions.unreadable]
    if update.missing:
        reasons.append(
            f"a worker would not start, because the file lacks active queries: {few(update.missing)}. Add them, or "
            "retire them with `--retire` of worker and check"
        )
    if update.edition_lines:
        names = few([*update.edition_lines])
        reasons.append(f"a worker would not start, because only the edition changes the digests of {names}")
    reasons += [f"a worker would not start: queries.{name}: {fault}" for name, fault in update.group_faults.items()]
    return reasons


def savings(file: File, newer: File) -> Iterator[str]:
    """Yield what the newest edition would save for each query of an older file."""
    for name, query in file.queries.items():
        successor = newer.queries[name]
        if successor.digest == query.digest:
            continue

        parts = []
        if successor.record_charge != query.record_charge:
            parts.append(f"charge {up(successor.record_charge)} instead of {up(query.record_charge)}")
        if query.only_oracle is not None and successor.only_oracle is not None:
            ratio = total(successor.only_oracle) / total(query.only_oracle)
            parts.append(f"need {ratio:.2f} times the people for the same error")
            parts.append(f"use {successor.only_oracle!r}")

        # Several attributes have no single oracle to name. If their charge stays too, tables change the digest.
        parts = parts or ["use tables"]
        yield f"{name}: edition = {newer.edition} would {', '.join(parts)}. It has another digest, so use a new name."

    if all(newer.queries[name].digest == query.digest for name, query in file.queries.items()):
        yield f"edition = {newer.edition} would change no query. Write it before all tables."
    else:
        yield 'docs/operating.md, "Change the edition of a file", has the steps.'


def compare(file: File, definitions: Definitions, default: float, retire: Collection[str] = ()) -> Iterator[str]:
    """Yield the differences between a file and the active queries, and who would fall silent.

    `default` is the epsilon that a device allows for all queries. `retire` has the names of the option `--retire`.
    """
    update = changes(file, definitions, retire, "")
    if update.behind:
        yield "The topic has a later revision of the file. Workers ignore this file."
        return

    active = definitions.active
    for name, stop in sorted(definitions.stops.items()):
        reason = f" ({stop.reason})" if stop.reason else ""
        yield f"{name}: is stopped since {utc(stop.since)}{reason}. `hubbub resume {name}` lets it go on."
    restarts = set(retire) - set(update.ignored)
    for name in update.missing:
        yield f"{name}: is active, but the file lacks it. A starting worker exits with code 2."
    for name in update.ignored:
        yield f"{name}: is not active, or the file still has it, so --retire has no effect."
    for name in sorted(active.keys() & set(retire) - file.queries.keys()):
        yield f"{name}: is active, and ends because --retire names it."
    for name, lines in update.edition_lines.items():
        yield f"{name}: only the edition changes its digest. A starting worker exits with code 2. To keep it: {lines}."

    # The charge of an old digest stays after its query ends, so a new digest adds its whole charge.
    charges = sum(query.record_charge * query.charges for query in active.values())
    more = 0.0
    for name, query in file.queries.items():
        predecessor = active.get(name)
        if predecessor is None:
            yield f"{name}: is new. Its first answer charges {up(query.record_charge)}."
            more += query.record_charge * query.charges
        elif query.digest == predecessor.digest:
            yield f"{name}: keeps its digest {predecessor.digest.hex()}."
            yield from _new_spread(predecessor, query)
        elif with_active_settings(query, predecessor) is not query and name not in {*update.edition_lines, *restarts}:
            yield (
                f"{name}: keeps its digest {predecessor.digest.hex()}, because workers keep the active settings. Add "
                f"these lines to the clients' copy of the file: {lines_that_keep(predecessor)}."
            )
        else:
            more += query.record_charge * query.charges
            yield from _new_digest(predecessor, query)

    if more:
        total_charge = charges + more
        effect = "Devices whose max_epsilon is below that fall silent for the new queries. "
        effect += f"The SDK's default is {default:g}."
        if total_charge <= default:
            effect = f"This is within the SDK's default max_epsilon of {default:g}, so no device falls silent."
        yield (
            f"A device that has answered all active queries is charged {up(charges)} so far, and {up(more)} more: "
            f"{up(total_charge)} in all. {effect}"
        )


def _new_spread(predecessor: Query, query: Query) -> Iterator[str]:
    if query.spread != predecessor.spread:
        before, after = ("all" if spread is None else spread for spread in (predecessor.spread, query.spread))
        yield (
            f"{query.name}: its spread changes from {before} to {after}, {NOTICE} s later than other changes. "
            'No device is charged. `spread = "all"` in the file keeps every partition.'
        )


def _new_digest(predecessor: Query, query: Query) -> Iterator[str]:
    end = "for ever" if predecessor.renew is None else f"until their round of {predecessor.renew:,} s ends"
    yield (
        f"{query.name}: its digest would change from {predecessor.digest.hex()} to {query.digest.hex()}. Reports of "
        f"the old one are stale then. Devices that answered were charged {up(predecessor.record_charge)}, and are "
        f"charged {up(query.record_charge)} again. Those whose max_epsilon does not allow both fall silent {end}."
    )
