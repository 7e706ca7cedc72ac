"""`check` and `probe` know unknown strings: they accept the oracle, and find planted faults.

All statistical tests have seeds, and the checks below raise a false alarm with a probability below 1e-6.
"""

import shlex
import sys

import numpy as np
import pytest

from hubbub.__main__ import main
from oracles import oracle
from oracles.conformance import check, probe
from oracles.conformance.probed_strings import TEXTS
from oracles.discover import Coding, Slots, Strings
from oracles.errors import ConformanceError, ParameterError
from oracles.mechanisms.entropy import source
from producers.client.respondents import Respondents
from tests.queries import make_query, make_table, make_text

QUERY = "edition = 2\n" + make_text(
    "crashes", domain={"discover": "text", "length": 8, "cells": 12}, pane="5m", period="1d"
)


def query_of(**settings):
    table = make_table(domain={"discover": "text", "length": 8, "cells": 12}, pane="5m", period="1d")
    return make_query(table, name="crashes", **settings, edition=2)


EIGHT = Coding(8)


def slots(coding=EIGHT, epsilon=1.0, name="olh", kind=Slots):
    return kind(Strings(coding, 12, bytes(range(8))), lambda size: oracle(name, epsilon=epsilon, size=size))


def honest(o, seed=1):
    rng = np.random.default_rng(seed)
    return lambda texts: o.perturb(np.array([o.strings.cells_of(text) for text in texts]), rng)


def living(o, seed=1):
    """Devices that keep their level, their rows and their table."""
    rng = np.random.default_rng(seed)
    every = {text: o.strings.cells_of(text) for text in TEXTS}

    def client(texts):
        crowd = Respondents(o, len(texts), lambda *_: source(rng))
        rows = np.array([[every[text] for text in row] for row in texts])
        return np.stack([crowd.reports(rows[:, t]) for t in range(rows.shape[1])], axis=1)

    return client


@pytest.mark.parametrize("name", ["hr", "olh", "full", "short"])
@pytest.mark.parametrize("coding", [Coding(8), Coding(6, None, "none"), Coding(1, "ab", "NFC")])
def test_the_oracle_of_strings_keeps_its_promises(name, coding):
    check(slots(coding, 2.0, name))


class Uniform(Slots):
    """Slots that draw each level and map equally often, as smp does."""

    def choose(self, draw, count):
        return draw.below(self.strings.parts, count)


class Forgetful(Slots):
    """Slots that report the first level's cell at all levels."""

    def _encode(self, columns, draw):
        return super()._encode([columns[0]] * len(columns), draw)


@pytest.mark.parametrize(("kind", "fault"), [(Uniform, "by their slots"), (Forgetful, "does not support its cell")])
def test_a_broken_oracle_of_strings_is_named(kind, fault):
    with pytest.raises(ConformanceError, match=fault):
        check(slots(kind=kind))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_an_honest_client_is_not_accused(epsilon):
    query = query_of(epsilon=epsilon)
    finding = probe(honest(query.oracle), query, reports=60_000)
    assert not finding.violates
    assert 0.3 * epsilon < finding.epsilon_low <= finding.claim == epsilon


def test_an_honest_life_is_within_the_theorem():
    query = query_of()
    finding = probe(living(query.oracle), query, reports=120_000, periods=3)
    assert not finding.violates
    assert finding.epsilon_low > 0.2


def test_a_client_with_too_large_an_epsilon_is_found():
    query = query_of(oracle="hr")
    louder = Slots(query.strings, lambda size: oracle("hr", epsilon=3.0, size=size))
    finding = probe(honest(louder), query, reports=60_000)
    assert finding.violates
    assert "against" in finding.event


def test_a_client_whose_level_depends_on_the_text_is_found():
    query = query_of()
    o = query.oracle

    def client(texts):
        reports = honest(o)(texts)
        is_odd = np.array([sum(text.encode()) % 2 for text in texts], np.bool_)
        reports[:, 0] = np.where(is_odd, o.strings.parts - 1, 0)
        return reports

    assert probe(client, query, reports=40_000).violates


def test_attributes_still_need_queries_of_their_own():
    query = make_query(attributes={"a": 3, "b": 4})
    with pytest.raises(ParameterError, match="one answer"):
        probe(lambda values: values, query)


CLIENT = """
import json, sys
import numpy as np
from oracles.query import load
query = load(sys.argv[1])["crashes"]
for line in sys.stdin:
    cells = query.strings.cells_of(json.loads(line))
    print(query.oracle.perturb(cells[None, :]).tobytes().hex())
"""


def test_the_command_probes_a_client_in_a_process(tmp_path, capsys):
    path = tmp_path / "hubbub.toml"
    program = tmp_path / "client.py"
    path.write_text(QUERY)
    program.write_text(CLIENT)
    command = shlex.join([sys.executable, str(program), str(path)])
    arguments = ["probe", "--query", str(path), "--name", "crashes", "--exec", command, "--reports", "3000"]
    assert main(arguments) == 0
    assert "no violation found" in capsys.readouterr().out
