"""Promises to clients: what the answers of a lifetime reveal at most, what is not protected, and what is charged."""

import math
from collections.abc import Collection, Iterator
from decimal import ROUND_CEILING, Context, Decimal

from oracles.query import Query

_DAY = 86_400
_REPORT = {
    None: "One report is {epsilon}-LDP: none is more than exp({epsilon}) = {ratio} times likelier from one answer than "
    "from another.",
    "spl": "One report of a whole record is {epsilon}-LDP: each of its {d} attributes is answered with epsilon/{d}.",
    "smp": "One report of a whole record is {epsilon}-LDP: it answers one of its {d} attributes, drawn at random and "
    "visible to all.",
    "rsfd": "One report of a WHOLE record is {record}-LDP: epsilon' = ln(d (exp(epsilon) - 1) + 1) with d = {d} "
    "attributes. The epsilon = {epsilon} of the file holds only between records that differ in ONE attribute, and not "
    "always even then.",
}
_REPEATS = {
    "life": "Answers for life: {span} a client has one report for each of its K = {classes} classes, and is never "
    "silent. All its reports together: two histories whose classes repeat at the same times are told apart by at most "
    "exp({held}), m <= K the classes it held: {charge}-LDP.",
    "once": "Answers once: {span} a client repeats its first report. All its reports together are {charge}-LDP for any "
    "two histories; they do not follow what changes.",
    "fresh": "Answers are fresh: each is {charge}-LDP for itself, and they add up: {span} a client is silent "
    "after {charges}, whatever it answered: {total}-LDP together for any two histories.",
}
_EXPOSED = {
    "life": "Not protected: that and when its class changed, and how often; its rows are a pseudonym, which links its "
    "reports.",
    "once": "Not protected: its report is a pseudonym, which links its reports.",
    "fresh": "Not protected: when it falls silent, which says how often it was asked.",
}


def promises(query: Query) -> Iterator[str]:
    """The promise to a client, in words that are exactly true."""
    charge, epsilon = query.charge, query.record_epsilon
    yield _REPORT[query.solution].format(
        epsilon=up(query.epsilon), ratio=up(math.exp(query.epsilon)), record=up(epsilon), d=len(query.attributes)
    )
    yield _REPEATS[query.answers].format(
        span="from its first answer on" if query.renew is None else f"in each round of {_days(query.renew)}",
        classes=charge.times,
        held=f"m {up(charge.epsilon)}",
        charge=up(query.record_charge),
        charges=f"{query.charges:,} answer{'s' * (query.charges != 1)}",
        total=up(query.charges * Decimal(repr(epsilon))),
    )
    yield f"{_EXPOSED[query.answers]} Nor that it takes part, from where, and in which pane."
    if query.renew is not None:
        yield f"That holds for a round; any {_days(query.renew)} touch two."
    each = "each answer" if query.answers == "fresh" else "the first answer of a round"
    charge_text = f"{up(query.record_charge)} for {each}, of a budget of {query.budget:g}"
    yield f"Charged: {charge_text}, before the value is looked at."


def sum_of_charges(queries: Collection[Query], default: float) -> str:
    """The charges of a client that answers all queries of a file, and the limit that this takes."""
    total = sum(query.charge.amount * query.charges for query in queries)
    many = f"all {len(queries):,} queries" if len(queries) > 1 else "the query"
    takes = f"max_epsilon = {up(float(total))}"
    fits = "which is within the SDK's default" if total <= default else f"above the SDK's default of {default:g}"
    return (
        f"A client that answers {many} is charged {up(float(total))} in a round: it takes {takes}, {fits}. "
        "A definition with another digest charges anew; only max_epsilon bounds that."
    )


def up(number: float | Decimal) -> str:
    """Five digits that never promise more than the number does."""
    return f"{Context(prec=5, rounding=ROUND_CEILING).create_decimal(str(number)).normalize():f}"


def _days(seconds: int) -> str:
    return f"{seconds // _DAY:,} days" if seconds % _DAY == 0 else f"{seconds:,} seconds"
