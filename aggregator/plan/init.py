"""The command `hubbub init`, which asks five questions and writes a query file."""

import asyncio
import json
import math
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from textwrap import wrap
from typing import Any

from aggregator.plan import lifetimes, outlook
from aggregator.plan.collected_names import NameCollection, NameListDraft, add_all, default_name, listable
from aggregator.plan.interview import KINDS, Interview, answer, ask, query_name
from hubbub.command.idle_options import refuse_idle
from hubbub.command.old_names import add_old_name
from hubbub.command.options import add_kafka, add_queries, parser_of, run
from hubbub.kafka.settings import ESTIMATES, LARGEST, Kafka
from hubbub.texts import most_odds
from oracles.errors import ParameterError, extra
from oracles.mechanisms import NEWEST
from oracles.query import Query

with extra("stats"):
    import scipy  # noqa: F401 - the power of a test needs it, so say early that it is missing

HELP = """\
Ask whether this is a trial and then five questions, and write a commented query file: what is asked,
which values, numbers or unknown strings there are and by which groups, how many people answer how
often, how sensitive the answers are, and whether people answer once or for life. An option that gives an
answer leaves its question out.
The file says in words what these people will show. An existing file is never overwritten.
With --query, the file lists the names that searches of a query of unknown strings have found. A list
needs far fewer people for the same share.

example:
  $ hubbub init                 # an empty answer takes the default in brackets
  $ hubbub init --yes           # takes all defaults: a trial with results after 10 seconds
  $ hubbub init --yes --kind numbers --name load_time --groups platform:ios,android
  $ hubbub init --query crashes --queries names.toml

Exit code: 0 done; 2 wrong options, no terminal to ask, or the file exists; with --query also: 3 Kafka
cannot be reached; 4 the topics are missing."""

WIDTH = 100

ANSWERS = {
    "name": ("NAME", "short name of the query"),
    "values": ("SPEC", "names of values, their number, or a scale such as 10 to 60000 ms"),
    "people": ("N", "people and time, such as 20000 a day"),
    "groups": ("G:V,V,...", "groups, such as platform:ios,android; none: no groups"),
    "sensitivity": ("S", "little, normal or very"),
    "change": ("WAY", "once, life or hr"),
}
"""The options that answer a question, each with its placeholder and its meaning."""


def first_result(query: Query, now: float) -> str:
    """Return when the first window of a query ends that begins to count now, and what it needs."""
    window = min(query.windows, key=lambda window: window.step)
    end = math.ceil(now / window.step) * window.step + query.lateness
    moment = datetime.fromtimestamp(end, UTC)
    return (
        f"The first result appears on {moment.day} {moment:%B %Y at %H:%M:%S} UTC, if a worker runs and reports "
        f"arrive. Then one appears every {window.step:,} s."
    )


def main(arguments: list[str]) -> int:
    parser = parser_of("init", HELP)
    add_queries(parser)
    parser.add_argument("--yes", action="store_true", help="take the defaults and ask nothing")
    source = "query of unknown strings whose names the file lists"
    query_option = parser.add_argument("--query", dest="source", metavar="Q", help=source)
    add_old_name(parser, "--from", query_option)
    trial = "results after 10 seconds, for trying out (default with --yes)"
    parser.add_argument("--trial", action="store_true", help=trial)
    parser.add_argument("--kind", choices=KINDS, help="kind of answers; names are strings that nobody knows yet")
    for name, (metavar, meaning) in ANSWERS.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=f"answer to the question: {meaning}")
    add_kafka(parser)
    options = parser.parse_args(arguments)
    if options.source is not None and (
        options.trial or options.kind or any(getattr(options, name) for name in ANSWERS)
    ):
        parser.error("--query takes the answers of that query; leave the other answers out")
    if options.source is None:
        refuse_idle(parser, arguments, ("--kafka", "--prefix"), "without --query")

    def work() -> None:
        # Nobody should answer five questions for a file that cannot be written.
        path = Path(options.queries)
        if path.exists():
            raise ParameterError(f"{path} exists. Name another file with --queries")

        answers: Interview | NameListDraft
        if options.source is not None:
            answers = draft_of(Kafka.read(options), options.source, None if options.yes else input)
        else:
            presets = {name: getattr(options, name) for name in ANSWERS}
            presets["trial"] = "trial" if options.trial or options.yes else None
            answers = ask((lambda _: "") if options.yes else input, {**presets, "kind": options.kind})

        text = file_text(answers)

        # Another process may have made the file during the questions, and "x" does not overwrite it.
        with path.open("x", encoding="utf-8") as file:
            file.write(text)

        for sentence in [*answers.notes, *outlook.sentences(outlook.audiences(answers.query, answers.people)[0])]:
            sys.stdout.write(f"{sentence}\n")
        sys.stdout.write(f"{first_result(answers.query, time.time())}\n")
        sys.stdout.write(f"wrote {path}. Next: hubbub check {path} --clients {answers.people}\n")

    return run("init", work)


def draft_of(kafka: Kafka, source: str, read: Callable[[str], str] | None) -> NameListDraft:
    """Return the query of the names that a query has found. Its own name is asked for, or the default one."""
    query, collection = collect(kafka, source)
    names, unusable = listable(collection.names)
    default = default_name(query)
    question = f"{len(names):,} names were found. What is the name of the new query? [{default}]: "
    name = default if read is None else answer(read, question, default, query_name)

    if name == source:
        raise ParameterError(f"the new query needs another name than {source}, because it has other reports")

    # The reports of the largest final are the best figure for the people that the query reaches.
    people = Interview.people if collection.newest is None else max(collection.newest.n, 1)
    return NameListDraft(name, query, names, people, collection.smallest, len(unusable))


def collect(kafka: Kafka, name: str) -> tuple[Query, NameCollection]:
    """Return the active query of this name, and the names that its finals list. Raise ParameterError without any."""
    return asyncio.run(_collect(kafka, name))


async def _collect(kafka: Kafka, name: str) -> tuple[Query, NameCollection]:
    # These modules need a client of Kafka, which the five questions do not.
    from hubbub.definitions.follower import Follower
    from hubbub.kafka.clients import partitions
    from hubbub.kafka.log_reader import open_log

    async with Follower(kafka) as follower:
        active = follower.definitions.active

    query = active.get(name)
    if query is None:
        choices = ", ".join(sorted(choice for choice, query in active.items() if query.strings is not None))
        raise ParameterError(f"no active query is named {name!r}; queries of unknown strings: {choices or 'none'}")
    if query.strings is None:
        raise ParameterError(f"query {name} lists its values already, so there are no names to find")

    collection = NameCollection(query.digest.hex())
    count = (await partitions(kafka, ESTIMATES))[ESTIMATES]
    async with open_log(kafka, {ESTIMATES: range(count)}, max_partition_fetch_bytes=LARGEST) as reader:
        async for batches in reader.batches_to_end():
            add_all(collection, chain(*batches.values()))

    if not collection.names:
        raise ParameterError(f"no search of query {name} has found a name yet; the board says what it can show")
    return query, collection


def file_text(answers: "Interview | NameListDraft") -> str:
    """Return the query file, with the expected results as comments."""
    query = answers.query
    [audience] = outlook.audiences(query, answers.people)
    lines = ["# Written by hubbub init. docs/query-file.md explains each key."]
    for sentence in [*answers.notes, *outlook.sentences(audience)]:
        lines += wrap(sentence, WIDTH, initial_indent="# ", subsequent_indent="# ")

    about_domain = '"(other)" takes all other answers' if query.other else 'the values are named "0", "1", ...'
    if query.strings is not None:
        about_domain = "unknown strings; longer ones are cut"
    elif isinstance(answers.domain, dict):
        about_domain = "numbers; one beyond an end counts in the last bin at that end"
    lifetime = f"all answers of a device change these odds by {most_odds(lifetimes.life_epsilon(query))}"
    comments = {
        "domain": about_domain if isinstance(answers, Interview) else "the names, by falling share",
        "search": "the windows in which new names are searched",
        "groups": "the labels by which reports are counted too; a client sends its own in clear",
        "oracle": "its life costs no more than one answer",
        "other": '"(other)" takes all other answers',
        "budget": "the most epsilon of one device",
        "quantiles": "0.5 is the median; p95 is the number that 95% of the answers are below",
        "epsilon": f"a report changes the odds between two answers by {most_odds(query.epsilon)}",
        "answers": f"{'does not follow changes' if query.answers == lifetimes.ONCE else 'follows changes'}; {lifetime}",
        "period": "a device answers at most once in this time",
        "pane": "the shortest slice of time that is counted",
        "windows": "the times for which estimates are published",
    }

    # A dot in a bare key would make a table in a table.
    lines += [
        "",
        f"edition = {NEWEST}",
        "",
        f"[queries.{json.dumps(answers.name) if '.' in answers.name else answers.name}]",
    ]
    for key, value in answers.table.items():
        lines.append(f"{key:9} = {_toml(value):24}  # {comments[key]}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Return a value as TOML. All but a table is written like JSON."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(member)}' for key, member in value.items())} }}"

    # TOML forbids the character DEL in a text, and JSON does not escape it.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
