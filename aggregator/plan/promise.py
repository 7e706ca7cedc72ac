"""Promises to clients about the limits of what their answers reveal, the unprotected facts, and the charges."""

import math
from collections.abc import Collection, Iterator
from decimal import ROUND_CEILING, Context, Decimal

from oracles.mechanisms.protocol import Oracle
from oracles.query import Query

_DAY = 86_400
_REPORT = {
    None: "One report is {epsilon}-LDP: no report is more than exp({epsilon}) = {ratio} times as likely with one "
    "answer as with another.",
    "strings": "One report is {epsilon}-LDP for a whole string: no report is more than exp({epsilon}) = {ratio} times "
    "as likely with one string as with another. It tells of one level or map, drawn at random. Everybody can see which "
    "one.",
    "spl": "One report of a whole record is {epsilon}-LDP: it answers each of its {d} attributes with epsilon/{d}.",
    "smp": "One report of a whole record is {epsilon}-LDP: it answers one of its {d} attributes, drawn at random. "
    "Everybody can see which one.",
    "rsfd": "One report of a WHOLE record is {record}-LDP: epsilon' = ln(d (exp(epsilon) - 1) + 1) with d = {d} "
    "attributes. The epsilon = {epsilon} of the file holds only between records that differ in ONE attribute, and even "
    "then not always.",
}
_REPEATS = {
    "life": "Answers for life: {span} a client has one report for each of its K = {classes} classes, and is never "
    "silent. All its reports together distinguish two histories whose classes repeat at the same times by at most "
    "exp({exponent}), with m <= K the number of classes that it had: {charge}-LDP. For hashed answers classes are not "
    "values: a visible change can exclude a pair of values for certain.",
    "table": "Answers for life: {span} a client answers by one secret table, and is never silent. All its reports "
    "together change the odds between two courses of answers that changed at the same times by at most exp({charge}), "
    "one report by at most exp({epsilon}). That an answer changed, and when, is not hidden. Whoever learns one of its "
    "answers by other means learns up to exp({second}) about another.",
    "once": "Answers once: {span} a client repeats its first report. All its reports together are {charge}-LDP for any "
    "two histories. They do not follow changes.",
    "fresh": "Answers are fresh: each one is {charge}-LDP, and they add up: {span} a client is silent after {charges}, "
    "for any answers. All its reports together are {total}-LDP for any two histories. 52 fresh answers at epsilon 1 "
    "revealed the value in 6 of 6 tries.",
}
_EXPOSURES = {
    "life": "Not protected: whether, when and how often its class changed. Its rows are a pseudonym, which links its "
    "reports. A reader of all reports can be much surer of the answer than a reader of one.",
    "once": "Not protected: its report is a pseudonym, which links its reports.",
    "fresh": "Not protected: when it falls silent, which shows how often it was asked.",
}


def promises(query: Query) -> Iterator[str]:
    """Yield the promise to a client, in exact sentences."""
    charge, epsilon = query.charge, query.record_epsilon
    yield _REPORT["strings" if query.strings is not None else query.solution].format(
        epsilon=up(query.epsilon), ratio=up(math.exp(query.epsilon)), record=up(epsilon), d=len(query.attributes)
    )
    with_table = query.answers == "life" and query.table is not None
    yield _REPEATS["table" if with_table else query.answers].format(
        span="from its first answer on" if query.renew is None else f"in each round of {_days(query.renew)}",
        classes=charge.times,
        epsilon=up(query.epsilon),
        second=up(_second(query)),
        exponent=f"m {up(charge.epsilon)}",
        charge=up(query.record_charge),
        charges=f"{query.charges:,} answer{'s' * (query.charges != 1)}",
        total=up(query.charges * Decimal(repr(epsilon))),
    )
    yield f"{_EXPOSURES[query.answers]} Also not protected: that it takes part, from where, and in which pane."
    if query.renew is not None:
        yield f"This holds for a round. Any {_days(query.renew)} may touch two rounds."
    each = "each answer" if query.answers == "fresh" else "the first answer of a round"
    charge_text = f"{up(query.record_charge)} for {each}, of a budget of {query.budget:g}"
    yield f"Charge: {charge_text}, before the client reads the value."
    yield "All this assumes that each device has a key of its own: clones of a device share their noise."


def _second(query: Query) -> float:
    """Return the epsilon that somebody who knows one answer of a client can learn about another one.

    A report of spl answers all attributes, so theirs add up.
    """
    encoders = [query.oracle] if isinstance(query.oracle, Oracle) else query.oracle.encoders
    seconds = [each.epsilon if each.tables is None else each.bound(2) for each in encoders]
    return math.fsum(seconds) if query.solution == "spl" else max(seconds)


def sum_of_charges(queries: Collection[Query], default: float) -> str:
    """Return a text with the charges of a client that answers all queries of a file, and the required limit."""
    total = sum(query.charge.amount * query.charges for query in queries)
    many = f"all {len(queries):,} queries" if len(queries) > 1 else "the query"
    limit = f"max_epsilon = {up(float(total))}"
    comparison = "which is within the SDK's default" if total <= default else f"above the SDK's default of {default:g}"
    return (
        f"A client that answers {many} is charged {up(float(total))} in a round. It needs {limit}, {comparison}. "
        "A definition with another digest charges again; only max_epsilon limits that."
    )


def up(number: float | Decimal) -> str:
    """Return a number rounded up to five digits, so that the text never promises too much."""
    return f"{Context(prec=5, rounding=ROUND_CEILING).create_decimal(str(number)).normalize():f}"


def _days(seconds: int) -> str:
    return f"{seconds // _DAY:,} days" if seconds % _DAY == 0 else f"{seconds:,} seconds"
