"""Random lives of devices, held against the theorem of docs/clients.md: no stretch of `per` costs more than a limit.

The lives have listings that change, clocks that jump both ways, lost stores, and two processes. Another client runs the
same lives: `python tests/vectors/random_lives.py COUNT` prints them.
"""

import sys
import warnings
from fractions import Fraction
from math import inf
from pathlib import Path

import pytest

from producers import RenewalWarning
from producers.client.transaction import NoiseId
from producers.entropy import Mode

sys.path.append(str(Path(__file__).parents[1] / "vectors"))

from life_cases import Device
from random_lives import random_lives

LIVES, PARTS = 1000, 20
FILES = 10
"""One life in so many has its store in a file, with two processes. The others are in memory, which is faster."""


def use(ledger, query, device_time):
    """Return the noise that an answer used at a device time, and its charge."""
    mode = Mode.FRESH if query.answers == "fresh" else Mode.STABLE
    # Of two rounds or draws with the same time the newer one is that of the answer.
    sql = "SELECT MAX(round), MAX(number) FROM charge WHERE used = ? AND digest = ? AND mode = ?"
    with ledger.transaction() as transaction:
        start, number = transaction._database.execute(sql, (device_time, query.digest, mode)).fetchone()
        noise = NoiseId(query.digest, start, mode, number)
        return noise, transaction.noise_charge(noise)


def largest_sum(history, per):
    """Return the largest sum of charges of the noise that is used in a stretch (x, x + per]."""
    largest = Fraction()
    for end, _, _ in history:
        charges = {}
        for device_time, noise, charge in history:
            if end - per < device_time <= end:
                charges[noise] = max(charge, charges.get(noise, Fraction()))
        largest = max(largest, sum(charges.values()))
    return largest


def live(life, folder):
    """Return the time, the noise and the charge of each answer, and the sums after each step and at the last answer.

    A lost store may forget a charge that no report used, because the item of the key store is written with reports.
    """
    device = Device(life, folder)
    history, sums, device_time, answered_sum = [], [], -inf, 0.0
    for step in life.steps:
        result = device.step(step)
        ledger = device.ledgers[step.process if folder else 0]
        with ledger.transaction() as transaction:
            device_time = max(device_time, transaction.newest())
        if "frame" in result:
            history.append((device_time, *use(ledger, life.queries[step.definition], device_time)))
            answered_sum = result["status"]["life"]
        sums.append((result["status"]["life"], answered_sum))
    return history, sums


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))])
def test_no_stretch_costs_more_than_the_limit(part, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RenewalWarning)
        for number, life in enumerate(random_lives(LIVES // PARTS, first=part * LIVES // PARTS)):
            folder = None if number % FILES else tmp_path / str(number)
            if folder is not None:
                folder.mkdir()
            history, sums = live(life, folder)
            limit = Fraction(life.max_epsilon) * (1 + Fraction(1, 10**9))
            assert largest_sum(history, life.per or inf) <= limit, life.name
            assert all(total >= answered for total, answered in sums), f"{life.name}: a charge was forgotten"
