"""One attack on each thing of a port. Honest clients of other networks get their answers."""

import asyncio
from contextlib import ExitStack

import pytest

from tests.hostile.attacks import FEW
from tests.hostile.trial import LEAST, memory_limit, port, trial

PLACES = 100


@pytest.fixture(scope="module")
def open_ports():
    """Return the process and the number of a port, which starts at its first use."""
    with ExitStack() as stack:
        ports = {}

        def find(name):
            if name not in ports:
                ports[name] = stack.enter_context(port(name, PLACES))
            return ports[name]

        yield find


@pytest.mark.xdist_group("hostile")
@pytest.mark.parametrize("attack", FEW, ids=str)
def test_honest_clients_are_served_beside_an_attack(attack, open_ports):
    """The attackers have more connections than the port has places, and hold them in all ways at once."""
    process, number = open_ports(attack.port)
    outcome = asyncio.run(trial(attack, process, number, attackers=150, honest=5, rounds=2))
    assert outcome.answers >= LEAST * outcome.requests
    assert outcome.memory < memory_limit(attack)
