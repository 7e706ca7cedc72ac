"""Keys of a query that name its answers, one or several of a client, and the oracle that perturbs them."""

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
    """One of several answers that a client gives together."""

    name: str
    domain: Domain
    sets: Sets = ()


@contextmanager
def _refusals(at: Place) -> Iterator[None]:
    """Turn an oracle's ParameterError into a QueryError with file and key."""
    try:
        yield
    except ParameterError as error:
        raise at.error(str(error)) from error


class OracleSettings(NamedTuple):
    """The settings of a query that its oracle needs, except its name."""

    other: bool | None
    epsilon: float
    buckets: int | None
    answers: str


def _budget(keys: dict[str, Any], at: Place, epsilon: float) -> float:
    rule = number(f"of at least the epsilon of one record ({epsilon})", lambda value: value >= epsilon)
    budget: float = rule(keys.get("budget", 4 * epsilon), at / "budget")
    return budget


def read_one(keys: dict[str, Any], at: Place, folder: Path | None, ask: OracleSettings) -> dict[str, Any]:
    """Return the domain and oracle of a query with one answer."""
    domain = read_domain(keys["domain"], at / "domain", folder, ask.other)
    oracle_name = _ORACLE(keys.get("oracle", "auto"), at / "oracle")
    budget = _budget(keys, at, ask.epsilon)

    def make(epsilon: float = ask.epsilon, name: str = oracle_name, buckets: int | None = ask.buckets) -> Oracle:
        if name == "auto" and buckets is None and ask.answers == "life":
            return automatic(epsilon, domain.size, times(budget, epsilon))
        return oracle(name, epsilon=epsilon, size=domain.size, buckets=buckets)

    if oracle_name == "auto" and ask.answers == "life" and times(budget, ask.epsilon) < 2:
        raise (at / "answers").error(
            f'"life" charges at least 2 epsilon = {2 * ask.epsilon:g}, above the budget of {budget:g}; '
            f'use budget = {2 * ask.epsilon:g}, or epsilon = {budget / 2:g}, or answers = "once" or "fresh"'
        )
    with _refusals(at / ("oracle" if ask.buckets is None else "buckets")):
        selection = make()
    return {
        "oracle": selection,
        "oracle_names": (selection.name,),
        "fewer": (getattr(selection, "fewer", None),),
        "automatic": oracle_name == "auto",
        "make": make,
        "budget": budget,
        "record_epsilon": ask.epsilon,
        "domain": domain,
        "sets": read_sets(keys.get("sets", {}), at / "sets", domain),
        "attributes": (),
        "solution": None,
    }


def read_several(keys: dict[str, Any], at: Place, folder: Path | None, ask: OracleSettings) -> dict[str, Any]:
    """Return the attributes and oracles of a query with several answers."""
    tables = table(keys["attributes"], at / "attributes")
    if not tables:
        raise (at / "attributes").error("must be a table of one or more attributes with their domains, got none")
    domains = {name: read_domain(tables[name], at / "attributes" / name, folder, ask.other) for name in sorted(tables)}
    sets = table(keys.get("sets", {}), at / "sets", domains)
    solution = _SOLUTION(keys.get("solution", "smp"), at / "solution")
    # A definition in a topic names the oracle that "adaptive" chose when it was written.
    oracle_name = (_EACH if folder is None else _TEXT)(keys.get("oracle", ADAPTIVE), at / "oracle")
    sizes = [domain.size for domain in domains.values()]

    def make(
        epsilon: float = ask.epsilon, name: str | list[str] = oracle_name, buckets: int | None = ask.buckets
    ) -> Multi:
        return multi(solution, sizes=sizes, epsilon=epsilon, oracle=name, buckets=buckets)

    with _refusals(at / ("oracle" if ask.buckets is None else "buckets")):
        selection = make()
    attributes = (
        Attribute(name, domain, read_sets(sets.get(name, {}), at / "sets" / name, domain))
        for name, domain in domains.items()
    )
    return {
        "oracle": selection,
        "oracle_names": selection.names,
        "fewer": tuple(getattr(encoder, "fewer", None) for encoder in selection.encoders),
        "automatic": False,
        "make": make,
        "budget": _budget(keys, at, selection.record_epsilon),
        "record_epsilon": selection.record_epsilon,
        "domain": None,
        "sets": (),
        "attributes": tuple(attributes),
        "solution": solution,
    }
