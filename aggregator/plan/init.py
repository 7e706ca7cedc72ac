"""The command `hubbub init`, which asks five questions and writes a query file."""

import asyncio
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar

from aggregator.plan import lifetimes, outlook
from aggregator.plan.collected_names import NameCollection, NameListDraft, add_all, default_name, listable
from hubbub.command.old_names import add_old_name
from hubbub.command.options import add_kafka, add_queries, parser_of, run
from hubbub.kafka.settings import ESTIMATES, LARGEST, Kafka
from hubbub.texts import odds
from oracles.errors import ParameterError, QueryError, extra
from oracles.mechanisms import NEWEST
from oracles.numbers import LOG
from oracles.query import Query, parse
from oracles.query.domain import BINS_BY_DEFAULT
from oracles.query.settings import QUANTILES

with extra("stats"):
    import scipy  # noqa: F401 - the power of a test needs it, so say early that it is missing

HELP = """\
Ask five questions and write a commented query file: what is asked, which values or numbers there
are, how many people answer how often, how sensitive the answers are, and whether people answer once
or for life.
The file says in words what these people will show. An existing file is never overwritten.
With --query, the file lists the names that searches of a query of unknown strings have found. A list
needs far fewer people for the same share.

example:
  $ hubbub init                 # an empty answer takes the default in brackets
  $ hubbub init --yes           # takes all defaults
  $ hubbub init --query crashes --queries names.toml

Exit code: 0 done; 2 wrong options, no terminal to ask, or the file exists; with --query also: 3 Kafka
cannot be reached; 4 the topics are missing."""

_Answer = TypeVar("_Answer")
Domain = list[str] | int | dict[str, Any]
SPANS = {"day": ("1d", "1h"), "hour": ("1h", "1m"), "minute": ("1m", "10s")}
"""Period and pane for people who answer once in this time."""
EPSILONS = {"little": 4.0, "normal": 2.0, "very": 1.0}
"""Epsilon of a report by the sensitivity of the answers."""
MOST_PEOPLE = 10**12
WIDTH = 100
WIDE_RATIO = 100.0
"""Ratio of the ends of a scale from which the scale is a logarithmic one."""


@dataclass(frozen=True)
class Interview:
    """The answers to the five questions."""

    name: str = "screens"
    domain: Domain = 64
    """Names of values, the number of values, or the scale of numbers as a query file has it."""
    people: int = 20_000
    span: str = "day"
    sensitivity: str = "normal"
    way: str = lifetimes.LIFE
    """How people answer again: "once", "life", or "hr" for answers for life with this oracle."""
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> dict[str, Any]:
        """The query, as a query file has it."""
        period, pane = SPANS[self.span]
        table: dict[str, Any] = {"domain": self.domain}
        if isinstance(self.domain, dict):
            table["quantiles"] = [*QUANTILES]
        if self.way == lifetimes.HR:
            table["oracle"] = self.way
        return table | {
            "epsilon": EPSILONS[self.sensitivity],
            "answers": lifetimes.ONCE if self.way == lifetimes.ONCE else lifetimes.LIFE,
            "period": period,
            "pane": pane,
            "windows": [period],
        }

    @property
    def query(self) -> Query:
        return parse({"edition": NEWEST, "queries": {self.name: self.table}}, "hubbub init", None)[self.name]


def main(arguments: list[str]) -> int:
    parser = parser_of("init", HELP)
    add_queries(parser)
    parser.add_argument("--yes", action="store_true", help="take the defaults and ask nothing")
    source = "query of unknown strings whose names the file lists"
    query_option = parser.add_argument("--query", dest="source", metavar="Q", help=source)
    add_old_name(parser, "--from", query_option)
    add_kafka(parser)
    options = parser.parse_args(arguments)

    def work() -> None:
        # Nobody should answer five questions for a file that cannot be written.
        path = Path(options.queries)
        if path.exists():
            raise ParameterError(f"{path} exists. Name another file with --queries")

        answers: Interview | NameListDraft
        if options.source is not None:
            answers = draft_of(Kafka.read(options), options.source, None if options.yes else input)
        else:
            answers = Interview() if options.yes else ask(input)

        text = file_text(answers)

        # Another process may have made the file during the questions, and "x" does not overwrite it.
        with path.open("x", encoding="utf-8") as file:
            file.write(text)

        for sentence in [*answers.notes, *outlook.sentences(outlook.audiences(answers.query, answers.people)[0])]:
            sys.stdout.write(f"{sentence}\n")
        sys.stdout.write(f"wrote {path}. Next: hubbub check {path} --clients {answers.people}\n")

    return run("init", work)


def draft_of(kafka: Kafka, source: str, read: Callable[[str], str] | None) -> NameListDraft:
    """Return the query of the names that a query has found. Its own name is asked for, or the default one."""
    query, collection = collect(kafka, source)
    names, unusable = listable(collection.names)
    default = default_name(query)
    question = f"{len(names):,} names were found. What is the name of the new query? [{default}]: "
    name = default if read is None else _ask(read, question, default, _name)

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


def ask(read: Callable[[str], str]) -> Interview:
    """Ask the five questions. An empty answer takes the default, and an answer that cannot be used is asked again."""
    default = Interview()
    name = _ask(read, f"1. What is asked? A short name [{default.name}]: ", default.name, _name)
    question = (
        f"2. Which values? Names with commas, their number, or a scale such as 10 to 60000 ms [{default.domain}]: "
    )
    domain = _ask(read, question, default.domain, _domain)

    people, span = _ask(
        read, "3. How many people answer, and how often? [20000 a day]: ", (default.people, default.span), _people
    )

    factors = ", ".join(map(odds, EPSILONS.values()))
    question = f"4. How sensitive is it: little, normal or very? The odds of a report are {factors}. [normal]: "
    sensitivity = _ask(read, question, "normal", _sensitivity)
    interview = Interview(name, domain, people, span, sensitivity)
    choices = lifetimes.ways(lambda way: replace(interview, way=way).query)
    question = f"5. {lifetimes.question(choices)} [{default.way}]: "
    return replace(interview, way=_ask(read, question, default.way, lambda text: lifetimes.choice(text, choices)))


def _ask(read: Callable[[str], str], question: str, default: _Answer, parsed: Callable[[str], _Answer]) -> _Answer:
    while True:
        try:
            text = read(question).strip()
        except EOFError:
            raise ParameterError("there is nobody to answer the questions; --yes takes the defaults") from None
        if not text:
            return default

        try:
            return parsed(text)
        except (ParameterError, QueryError) as error:
            sys.stdout.write(f"   {error}\n")


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", text):
        raise ParameterError("a name has 1 to 64 of the characters A-Z a-z 0-9 _ . -")
    return text


def _domain(text: str) -> Domain:
    plain = text.replace("_", "")
    scale = re.fullmatch(r"(-?[0-9._,]+)\s*(?:to|\.\.)\s*(-?[0-9._,]+)\s*(\S*)", text)
    domain: Domain = [part.strip() for part in text.split(",")]
    if plain.isdecimal():
        domain = int(plain)
    elif scale:
        domain = _scale(*scale.groups())

    _ = Interview(domain=domain).query  # a domain that cannot be used raises an error
    return domain


def _scale(*texts: str) -> Domain:
    """Return the scale of numbers. A wide one is logarithmic, because its small numbers need narrow bins."""
    try:
        low, high = (float(re.sub("[_,]", "", text)) for text in texts[:2])
    except ValueError:
        raise ParameterError("a scale of numbers is written like 10 to 60000 ms or 0 to 120 years") from None

    # A person writes 10, not 10.0, and the file is for people.
    ends = {"low": int(low) if low.is_integer() else low, "high": int(high) if high.is_integer() else high}
    scale: dict[str, Any] = {**ends, "bins": BINS_BY_DEFAULT}
    if low > 0.0 and high / low >= WIDE_RATIO:
        scale["scale"] = LOG
    if texts[2]:
        scale["unit"] = texts[2]
    return scale


def _people(text: str) -> tuple[int, str]:
    match = re.fullmatch(r"([0-9][0-9_,.]*)\s*(?:people|clients)?\s*(?:an?|per|each|every)?\s*(day|hour|minute)?", text)
    number = int(re.sub("[_,.]", "", match[1])) if match else 0
    if not match or not 0 < number <= MOST_PEOPLE:
        raise ParameterError('answer with a number and a time, such as "20000 a day", "500 an hour" or "90 a minute"')
    return number, match[2] or "day"


def _sensitivity(text: str) -> str:
    matches = [word for word in EPSILONS if word.startswith(text.lower())]
    if len(matches) != 1:
        raise ParameterError("answer little, normal or very")
    return matches[0]


def file_text(answers: "Interview | NameListDraft") -> str:
    """Return the query file, with the expected results as comments."""
    query = answers.query
    [audience] = outlook.audiences(query, answers.people)
    lines = ["# Written by hubbub init. docs/query-file.md explains each key."]
    for sentence in [*answers.notes, *outlook.sentences(audience)]:
        lines += wrap(sentence, WIDTH, initial_indent="# ", subsequent_indent="# ")

    about_domain = '"(other)" takes all other answers' if query.other else 'the values are named "0", "1", ...'
    if isinstance(answers.domain, dict):
        about_domain = "numbers; one beyond an end counts in the last bin at that end"
    lifetime = f"all answers of a device change these odds by at most {odds(lifetimes.life_epsilon(query))}"
    comments = {
        "domain": about_domain if isinstance(answers, Interview) else "the names, by falling share",
        "oracle": "its life costs no more than one answer",
        "other": '"(other)" takes all other answers',
        "budget": "the most epsilon of one device",
        "quantiles": "0.5 is the median; p95 is the number that 95% of the answers are below",
        "epsilon": f"a report changes the odds between two answers by at most {odds(query.epsilon)}",
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
