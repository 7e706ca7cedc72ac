"""The rule that charges an answer, or refuses it, before any code reads the value.

A charge counts until the application's own `per` has passed since the last use of its noise. Nothing in a definition
decides this. docs/clients.md has the rule and its promise.
"""

from fractions import Fraction
from typing import NamedTuple

from oracles.mechanisms import chance
from oracles.mechanisms.protocol import Charge
from oracles.query import Query
from oracles.query.lifetime import affords
from producers.client.device_limits import Limits
from producers.client.transaction import NoiseId, Transaction
from producers.entropy import Mode


class AdmittedAnswer(NamedTuple):
    """An answer that the limits allow."""

    noise: NoiseId
    charge: Charge
    """The part of the charge that is not booked yet. It may be of no times."""
    device_time: float
    is_lengthened: bool = False
    """Whether the answer stays in the last round, because the new one does not fit."""


class RefusedAnswer(NamedTuple):
    """An answer that a limit does not allow."""

    noise: NoiseId
    message: str
    by_device: bool
    """Whether `max_epsilon` refuses it, and not the query's budget."""


def admit(transaction: Transaction, query: Query, limits: Limits, time_s: float) -> AdmittedAnswer | RefusedAnswer:
    """Return how the next answer is charged, or why it is refused."""
    device_time = max(time_s, transaction.newest())
    since = limits.since(device_time)
    noise = _noise_of(transaction, query, time_s)
    past_charge = transaction.noise_charge(noise)
    charge = _rest_of(query.charge, past_charge)
    is_active = transaction.last_use(noise) > since
    if is_active and not charge.times:
        return AdmittedAnswer(noise, charge, device_time)

    in_round = round_charge(transaction, query, noise.round)
    if charge.times and not affords(query.budget, in_round + charge.amount):
        name = f"the budget of query {query.name!r}"
        return RefusedAnswer(noise, _text(name, query.budget, in_round, charge.amount), by_device=False)

    # Expired noise comes back with all that it has booked.
    cost = charge.amount if is_active else charge.amount + past_charge
    active = transaction.active_charge(since)
    in_room = limits.in_room(query.name, transaction.charges_by_name(since)) if limits.shares else active
    has_room = affords(limits.room(query.name), in_room + cost)
    # A charge from before there were shares is in no room, and counts against max_epsilon all the same.
    if has_room and affords(limits.max_epsilon, active + cost):
        return AdmittedAnswer(noise, charge, device_time)

    last_noise = noise._replace(round=transaction.last_round(query.digest))
    if query.answers == "life" and _is_usable(transaction, query, last_noise, since):
        return AdmittedAnswer(last_noise, charge._replace(times=0), device_time, is_lengthened=True)
    if limits.shares and not has_room:
        owner = f"query {query.name!r}" if query.name in limits.shares else "all queries without one of their own"
        text = _text(f"the share of {owner}", float(limits.room(query.name)), in_room, cost)
        return RefusedAnswer(noise, text, by_device=True)
    stretch = "" if limits.per is None else f" and any {limits.per:,} s"
    name = f"max_epsilon, over all queries of this device{stretch},"
    return RefusedAnswer(noise, _text(name, limits.max_epsilon, active, cost), by_device=True)


def book(transaction: Transaction, query: Query, admission: AdmittedAnswer, limits: Limits) -> None:
    """Store the round, the charge and the use of an admitted answer."""
    noise = admission.noise
    transaction.enter_round(query.digest, noise.round)
    # A round counts as answered in the key store only after its first report is stored.
    if query.answers == "once" and not transaction.noise_charge(noise):
        transaction.mark_unanswered(query.digest, noise.round)
    if admission.charge.times:
        transaction.add_charge(query.name, noise, admission.charge, admission.device_time)
    else:
        transaction.use(noise, admission.device_time)
    since = limits.since(admission.device_time)
    transaction.set_expiry(since)
    transaction.join_expired(query.digest, since)


def round_charge(transaction: Transaction, query: Query, start: int) -> Fraction:
    """Return the charge of a query in a round."""
    return transaction.round_charge(query.name, query.digest, query.record_epsilon, start)


def _noise_of(transaction: Transaction, query: Query, time_s: float) -> NoiseId:
    """Return the noise of the next answer. A round never goes back, even if the clock does."""
    start = max(query.round(time_s), transaction.last_round(query.digest))
    if query.answers == "fresh":
        return NoiseId(query.digest, start, Mode.FRESH, transaction.count_answers(query.digest))
    return NoiseId(query.digest, start)


def _is_usable(transaction: Transaction, query: Query, noise: NoiseId, since: float) -> bool:
    """Whether answers for life may go on with some noise at no charge."""
    return transaction.last_use(noise) > since and not _rest_of(query.charge, transaction.noise_charge(noise)).times


def _rest_of(total: Charge, past_charge: Fraction) -> Charge:
    """Return the part of a charge that is not booked yet."""
    charge = max(total.amount - past_charge, Fraction())
    times = charge / Fraction(total.epsilon)
    # Rounded up, since a charge that is too low would leave room for an answer too many.
    return Charge(total.epsilon, int(times)) if times.denominator == 1 else Charge(chance.up(charge), 1)


def _text(name: str, limit: float, present: Fraction, cost: Fraction) -> str:
    return f"{name} is {limit:g}: {float(present):g} is spent, and the next answer costs {float(cost):g}"
