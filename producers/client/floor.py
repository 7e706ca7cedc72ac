"""The floor of a key item: charges that a lost or old store lacks are booked again."""

from fractions import Fraction

from oracles.mechanisms import chance
from oracles.mechanisms.protocol import Charge
from producers.client.key_item import KeyItem, rounded, seconds_up
from producers.client.transaction import LOST_NAME, NO_DIGEST, NoiseId, Transaction


def item_of(transaction: Transaction, key: bytes) -> KeyItem:
    """Return the item of a store as it is now."""
    return KeyItem(
        key=key,
        life=transaction.total_charge(),
        newest=seconds_up(transaction.newest()),
        rounds=transaction.last_rounds(),
        fresh=transaction.fresh_draws(),
    )


def restore(transaction: Transaction, item: KeyItem) -> None:
    """Book what a store lacks of an item, with the device time of the item's newest use."""
    for digest, (start, charge) in sorted(item.rounds.items()):
        noise = NoiseId(digest, start)
        own_charge = transaction.noise_charge(noise)
        # The key draws the same noise again, but a report of once is gone.
        if not own_charge or transaction.is_unanswered(digest, start):
            transaction.lose(digest, start)
        if rounded(own_charge) < charge:
            _book(transaction, noise, charge - own_charge, item.newest)
        transaction.enter_round(digest, start)

    life = transaction.total_charge()
    if rounded(life) < item.life:
        _book(transaction, NoiseId(NO_DIGEST, 0), item.life - life, item.newest)

    for digest, number in item.fresh.items():
        # A draw that this store has charged may be sent already: a backup can be older than the answer.
        if transaction.count_answers(digest) < number:
            transaction.set_answers(digest, number)


def _book(transaction: Transaction, noise: NoiseId, amount: Fraction, newest: int) -> None:
    transaction.add_charge(LOST_NAME, noise, Charge(chance.up(amount), 1), float(newest))
