"""The base installation works with NumPy alone, and every other feature names its extra."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from hubbub.__main__ import COMMANDS
from oracles import oracle
from tests.queries import make_text

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BARE = """
import sys
class Bare:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in sys.stdlib_module_names and root not in (
            "numpy", "oracles", "hubbub", "producers", "aggregator", "{allowed}"
        ):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Bare())
"""
QUERIES = make_text("q", domain=["a", "b"])


def run(code, folder, packages="numpy"):
    """Run the code as if only NumPy and the permitted packages were installed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = BARE.format(allowed=packages) + code
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_base_answers_counts_and_estimates(tmp_path):
    (tmp_path / "hubbub.toml").write_text(QUERIES)
    process = run(
        """
import numpy as np
import hubbub
from oracles import ORACLES
from oracles.consistency import apply
from oracles.frame import decode, encode, encode_json
query = hubbub.load("hubbub.toml")["q"]
report = hubbub.Client(query, store=":memory:").answer("a")
assert decode(encode(query.digest, 0, report)).n == 1
assert encode_json(query.digest, 0, report).startswith(b'{"digest":"')
for name in ORACLES:
    o = hubbub.oracle(name, epsilon=1.0, size=16)
    tally = o.zeros()
    assert not o.add(tally, o.perturb(np.arange(3_000) % 16, np.random.default_rng(1)))
    estimate = o.estimate(tally, 3_000)
    assert (estimate.low < estimate.high).all()
    assert apply("norm_sub", estimate).sum() > 0.99
""",
        tmp_path,
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import hubbub; hubbub.Publisher", "kafka"),
        ("from producers import Publisher", "kafka"),
        ("from producers import HttpPublisher", "http"),
        ("import hubbub; hubbub.read", "read"),
        ("from oracles import oracle; o = oracle('grr', epsilon=1.0, size=9); o.estimate(o.zeros(), 1).low", "stats"),
        ("from oracles.frame import decode; decode(b'{}')", "kafka"),
    ],
)
def test_a_missing_feature_names_its_extra(code, extra, tmp_path):
    process = run(code, tmp_path)
    assert re.search(
        rf"MissingExtra: package \w+ is not installed; run: pip install 'hubbub\[{extra}\]'$", process.stderr.strip()
    )


@pytest.mark.parametrize("name", [name for name in COMMANDS if COMMANDS[name][1]])  # others need the base
def test_a_command_names_the_missing_extra_without_a_traceback(name, tmp_path):
    (tmp_path / "hubbub.toml").write_text(QUERIES)
    process = run(f"from hubbub.__main__ import main; sys.exit(main([{name!r}]))", tmp_path)
    assert process.returncode == 2
    extra = COMMANDS[name][1]
    assert re.fullmatch(
        rf"hubbub {name}: package \w+ is not installed; run: pip install 'hubbub\[{extra}\]'\n", process.stderr
    )
    assert extra in PROJECT["optional-dependencies"]


def test_the_base_is_numpy_alone():
    assert [re.match("[a-z-]+", line)[0] for line in PROJECT["dependencies"]] == ["numpy"]


@pytest.mark.parametrize("name", ["sue", "oue"])
@pytest.mark.parametrize("size", [2, 20, 1024, 100_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_implausible_reports_are_the_same_without_scipy(name, size, epsilon):
    o = oracle(name, epsilon=epsilon, size=size)
    alone = stats.binom.pmf(np.arange(size), size - 1, o.q)
    law = np.concatenate([(1 - o.p) * alone, [0.0]]) + np.concatenate([[0.0], o.p * alone])
    np.testing.assert_allclose(o.law(), law, rtol=1e-7, atol=1e-30)
    low, high = o.plausible
    assert law[:low].sum() <= 5e-10 < law[: low + 1].sum()
    assert law[high + 1 :].sum() <= 5e-10 < law[high:].sum()
