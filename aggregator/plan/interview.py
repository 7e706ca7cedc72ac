"""The interview of `hubbub init`: its questions, the answers that it understands, and the query that they make."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from aggregator.plan import lifetimes
from hubbub.texts import odds
from oracles.errors import ParameterError, QueryError
from oracles.mechanisms import NEWEST
from oracles.numbers import LOG
from oracles.query import Query, parse
from oracles.query.domain import BINS_BY_DEFAULT
from oracles.query.settings import QUANTILES

_Answer = TypeVar("_Answer")
Domain = list[str] | int | dict[str, Any]
SPANS = {"day": ("1d", "1h"), "hour": ("1h", "1m"), "minute": ("1m", "10s")}
"""Period and pane for people who answer once in this time."""
EPSILONS = {"little": 4.0, "normal": 2.0, "very": 1.0}
"""Epsilon of a report by the sensitivity of the answers."""
MOST_PEOPLE = 10**12
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


def ask(read: Callable[[str], str]) -> Interview:
    """Ask the five questions. An empty answer takes the default, and an answer that cannot be used is asked again."""
    default = Interview()
    name = answer(read, f"1. What is asked? A short name [{default.name}]: ", default.name, query_name)
    question = (
        f"2. Which values? Names with commas, their number, or a scale such as 10 to 60000 ms [{default.domain}]: "
    )
    domain = answer(read, question, default.domain, _domain)

    people, span = answer(
        read, "3. How many people answer, and how often? [20000 a day]: ", (default.people, default.span), _people
    )

    factors = ", ".join(map(odds, EPSILONS.values()))
    question = f"4. How sensitive is it: little, normal or very? The odds of a report are {factors}. [normal]: "
    sensitivity = answer(read, question, "normal", _sensitivity)
    interview = Interview(name, domain, people, span, sensitivity)
    choices = lifetimes.ways(lambda way: replace(interview, way=way).query)
    question = f"5. {lifetimes.question(choices)} [{default.way}]: "
    return replace(interview, way=answer(read, question, default.way, lambda text: lifetimes.choice(text, choices)))


def answer(read: Callable[[str], str], question: str, default: _Answer, parsed: Callable[[str], _Answer]) -> _Answer:
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


def query_name(text: str) -> str:
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
