"""The interview of `hubbub init`: its questions, the answers that it understands, and the query that they make."""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
TRIAL = "trial"
SPANS = {TRIAL: ("10s", "10s"), "day": ("1d", "1h"), "hour": ("1h", "1m"), "minute": ("1m", "10s")}
"""Period and pane for people who answer once in this time. In a trial the first result appears after seconds."""
WINDOWS = {TRIAL: ["10s", "1m/10s"]}
"""The windows of a span. Without an entry it is the period."""
KINDS: Mapping[str, Domain] = {
    "values": ["a.example", "b.example"],
    "numbers": {"low": 10, "high": 60_000, "bins": BINS_BY_DEFAULT, "scale": LOG, "unit": "ms"},
    "names": {"discover": "text", "length": 24},
}
"""The kinds of answers, each with a domain to begin with. Names are unknown strings."""
SEARCHED_PANE = "5m"
"""The shortest pane of unknown strings, whose tally has several megabytes."""
EPSILONS = {"little": 4.0, "normal": 2.0, "very": 1.0}
"""Epsilon of a report by the sensitivity of the answers."""
MOST_PEOPLE = 10**12
WIDE_RATIO = 100.0
"""Ratio of the ends of a scale from which the scale is a logarithmic one."""


@dataclass(frozen=True)
class Interview:
    """The answers to the five questions."""

    name: str = "homepage"
    domain: Domain = field(default_factory=lambda: KINDS["values"])
    """Names of values, the number of values, or the scale of numbers as a query file has it."""
    people: int = 20_000
    span: str = TRIAL
    sensitivity: str = "normal"
    way: str = lifetimes.LIFE
    """How people answer again: "once", "life", or "hr" for answers for life with this oracle."""
    notes: tuple[str, ...] = ()
    groups: dict[str, list[str]] = field(default_factory=dict)
    """The name of the groups with their values, or nothing."""

    @property
    def is_searched(self) -> bool:
        """Whether the answers are unknown strings."""
        return isinstance(self.domain, dict) and "discover" in self.domain

    @property
    def table(self) -> dict[str, Any]:
        """The query, as a query file has it."""
        period, pane = SPANS[self.span]
        windows = WINDOWS.get(self.span, [period])
        table: dict[str, Any] = {"domain": self.domain}
        if self.is_searched:
            if self.span in (TRIAL, "minute"):
                period = SEARCHED_PANE
                windows = [period]
            pane = SEARCHED_PANE
            table["search"] = windows[0]
        elif isinstance(self.domain, dict):
            table["quantiles"] = [*QUANTILES]
        if self.way == lifetimes.HR:
            table["oracle"] = self.way
        if self.groups:
            table["groups"] = self.groups
        return table | {
            "epsilon": EPSILONS[self.sensitivity],
            "answers": lifetimes.ONCE if self.way == lifetimes.ONCE else lifetimes.LIFE,
            "period": period,
            "pane": pane,
            "windows": windows,
        }

    @property
    def query(self) -> Query:
        return parse({"edition": NEWEST, "queries": {self.name: self.table}}, "the new file", None)[self.name]


def ask(read: Callable[[str], str], presets: Mapping[str, str | None] | None = None) -> Interview:
    """Ask the questions whose answers are not given. An answer that cannot be used is asked again.

    An empty answer takes the default.
    """
    default = Interview()
    texts = {name: text for name, text in (presets or {}).items() if text is not None}

    def answer_to(key: str, question: str, usual: _Answer, parse_text: Callable[[str], _Answer]) -> _Answer:
        return parse_text(texts[key]) if key in texts else answer(read, question, usual, parse_text)

    question = "Is this a trial, with results after 10 seconds, or for real? [trial]: "
    is_trial = answer_to("trial", question, True, _trial)
    name = answer_to("name", f"1. What is asked? A short name [{default.name}]: ", default.name, query_name)
    domain = _asked_domain(answer_to, texts.get("kind"))

    question = (
        "3. How many people answer? [20000]: "
        if is_trial
        else "3. How many people answer, and how often? [20000 a day]: "
    )
    people, span = answer_to("people", question, (default.people, "day"), _people)
    span = TRIAL if is_trial else span

    interview = replace(default, name=name, domain=domain, people=people, span=span)
    if interview.is_searched:
        if {"kind", "values"} <= texts.keys():
            raise ParameterError("nobody can list unknown strings: leave --values out")
        if texts.get("groups", "none").strip().lower() != "none":
            raise ParameterError("unknown strings take no groups: leave --groups out")
    else:
        question = "   By which groups, such as platform: ios, android? [none]: "
        interview = replace(interview, groups=answer_to("groups", question, {}, lambda text: _groups(text, interview)))

    factors = ", ".join(map(odds, EPSILONS.values()))
    question = f"4. How sensitive is it: little, normal or very? The odds of a report are {factors}. [normal]: "
    interview = replace(interview, sensitivity=answer_to("sensitivity", question, "normal", _sensitivity))
    choices = lifetimes.ways(lambda way: replace(interview, way=way).query)
    question = f"5. {lifetimes.question(choices)} [{default.way}]: "
    return replace(
        interview, way=answer_to("change", question, default.way, lambda text: lifetimes.choice(text, choices))
    )


def _asked_domain(answer_to: Callable[..., Domain], kind: str | None) -> Domain:
    """Return the domain: of a kind that is given, or of any."""
    default = KINDS[kind or "values"]
    default_text = ", ".join(default) if isinstance(default, list) else kind
    question = (
        "2. Which values? Names with commas, their number, a scale such as 10 to 60000 ms, "
        f'or "names" for strings that nobody knows yet [{default_text}]: '
    )
    domain: Domain = default if kind == "names" else answer_to("values", question, default, _domain)
    is_unlisted = isinstance(domain, dict) and "discover" in domain
    if kind == "numbers" and (is_unlisted or not isinstance(domain, dict)):
        raise ParameterError("numbers need a scale such as 10 to 60000 ms")
    if kind == "values" and isinstance(domain, dict):
        raise ParameterError('values of the kind "values" are names with commas, or their number')
    return domain


def answer(
    read: Callable[[str], str], question: str, default: _Answer, parse_text: Callable[[str], _Answer]
) -> _Answer:
    while True:
        try:
            text = read(question).strip()
        except EOFError:
            raise ParameterError("there is nobody to answer the questions; --yes takes the defaults") from None
        if not text:
            return default

        try:
            return parse_text(text)
        except (ParameterError, QueryError) as error:
            sys.stdout.write(f"   {error}\n")


def query_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", text):
        raise ParameterError("a name has 1 to 64 of the characters A-Z a-z 0-9 _ . -")
    return text


def _trial(text: str) -> bool:
    words = {"trial": True, "real": False}
    matches = [word for word in words if word.startswith(text.lower())]
    if len(matches) != 1:
        raise ParameterError("answer trial or real")
    return words[matches[0]]


def _groups(text: str, interview: Interview) -> dict[str, list[str]]:
    name, colon, values = text.partition(":")
    if text.strip().lower() == "none":
        return {}
    if not colon:
        raise ParameterError("groups are written like platform: ios, android")
    groups = {name.strip(): [value.strip() for value in values.split(",")]}
    _ = replace(interview, groups=groups).query  # groups that cannot be used raise an error
    return groups


def _domain(text: str) -> Domain:
    if text.lower() == "names":
        return KINDS["names"]
    if text.lower() in ("unknown", "strings"):
        raise ParameterError('answer "names" for strings that nobody knows yet, or name the values with commas')
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
