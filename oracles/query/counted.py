"""Answers that a query counts, one or several of a client, and the oracle that perturbs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from oracles.errors import ParameterError
from oracles.mechanisms import ORACLES, automatic, oracle
from oracles.mechanisms.protocol import Oracle
from oracles.multi import ADAPTIVE, multi
from oracles.multi.attributes import Multi
from oracles.query.domain import Domain, Sets, read_domain, read_sets
from oracles.query.lifetime import times
from oracles.query.settings import Place, Rule, choice, number, table

_ORACLE = choice(*ORACLES, "auto")
_SOLUTION = choice("spl", "smp", "rsfd")
_TEXT = Rule("the name of an oracle", lambda value: isinstance(value, str))
_EACH = Rule(
    "the name of an oracle, or a list with that of each attribute",
    lambda value: all(isinstance(name, str) for name in (value if isinstance(value, list) else [value])),
)


@dataclass(frozen=True)
class Attribute:
    """One of several answers that a client gives at once."""

    name: str
    domain: Domain
    sets: Sets = ()


@contextmanager
def _refusals(at: Place) -> Iterator[None]:
    """An oracle's refusals, said with file and key."""
    try:
        yield
    except ParameterError as error:
        raise at.error(str(error)) from error


class Ask(NamedTuple):
    """The wishes for an oracle, beside its name."""

    other: bool | None
    epsilon: float
    buckets: int | None
    answers: str


def _budget(given: dict[str, Any], at: Place, spent: float) -> float:
    rule = number(f"of at least the epsilon of one record ({spent})", lambda value: value >= spent)
    budget: float = rule(given.get("budget", 4 * spent), at / "budget")
    return budget


def read_one(given: dict[str, Any], at: Place, folder: Path | None, ask: Ask) -> dict[str, Any]:
    """The domain and oracle where a client gives one answer."""
    domain = read_domain(given["domain"], at / "domain", folder, ask.other)
    named = _ORACLE(given.get("oracle", "auto"), at / "oracle")
    budget = _budget(given, at, ask.epsilon)

    def make(epsilon: float = ask.epsilon, name: str = named, buckets: int | None = ask.buckets) -> Oracle:
        if name == "auto" and buckets is None and ask.answers == "life":
            return automatic(epsilon, domain.size, times(budget, epsilon))
        return oracle(name, epsilon=epsilon, size=domain.size, buckets=buckets)

    if named == "auto" and ask.answers == "life" and times(budget, ask.epsilon) < 2:
        raise (at / "answers").error(
            f'"life" charges at least 2 epsilon = {2 * ask.epsilon:g}, above the budget of {budget:g}; '
            f'budget = {2 * ask.epsilon:g} would do, or epsilon = {budget / 2:g}, or answers = "once" or "fresh"'
        )
    with _refusals(at / ("oracle" if ask.buckets is None else "buckets")):
        chosen = make()
    return {
        "oracle": chosen,
        "oracle_names": (chosen.name,),
        "fewer": (getattr(chosen, "fewer", None),),
        "automatic": named == "auto",
        "make": make,
        "budget": budget,
        "record_epsilon": ask.epsilon,
        "domain": domain,
        "sets": read_sets(given.get("sets", {}), at / "sets", domain),
        "attributes": (),
        "solution": None,
    }


def read_several(given: dict[str, Any], at: Place, folder: Path | None, ask: Ask) -> dict[str, Any]:
    """The attributes and their oracles where a client gives several answers at once."""
    tables = table(given["attributes"], at / "attributes")
    if not tables:
        raise (at / "attributes").error("must be a table of one or more attributes with their domains, got none")
    domains = {name: read_domain(tables[name], at / "attributes" / name, folder, ask.other) for name in sorted(tables)}
    sets = table(given.get("sets", {}), at / "sets", domains)
    solution = _SOLUTION(given.get("solution", "smp"), at / "solution")
    # A definition that stands in a topic says what "adaptive" came to when it was written.
    named = (_EACH if folder is None else _TEXT)(given.get("oracle", ADAPTIVE), at / "oracle")
    sizes = [domain.size for domain in domains.values()]

    def make(epsilon: float = ask.epsilon, name: str | list[str] = named, buckets: int | None = ask.buckets) -> Multi:
        return multi(solution, sizes=sizes, epsilon=epsilon, oracle=name, buckets=buckets)

    with _refusals(at / ("oracle" if ask.buckets is None else "buckets")):
        chosen = make()
    attributes = (
        Attribute(name, domain, read_sets(sets.get(name, {}), at / "sets" / name, domain))
        for name, domain in domains.items()
    )
    return {
        "oracle": chosen,
        "oracle_names": chosen.names,
        "fewer": tuple(getattr(encoder, "fewer", None) for encoder in chosen.encoders),
        "automatic": False,
        "make": make,
        "budget": _budget(given, at, chosen.record_epsilon),
        "record_epsilon": chosen.record_epsilon,
        "domain": None,
        "sets": (),
        "attributes": tuple(attributes),
        "solution": solution,
    }
