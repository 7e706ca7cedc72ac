"""Public import names, which stay when modules move, and the weight of a client."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = {
    "oracles": "oracle Estimate ORACLES Oracle",
    "oracles.calibrate": "calibrate Calibrated",
    "oracles.central": "crowd_epsilon honest",
    "oracles.conformance": "check probe",
    "oracles.consistency": "METHODS UNBIASED answer apply find norm_sub",
    "oracles.discover": "Strings ask search",
    "oracles.errors": "ConformanceError EntropyError FrameError HubbubError MissingExtra QueryError ReportError",
    "oracles.estimate": "Estimate Pure change quantile",
    "oracles.frame": "MAX_FRAME TICK Frame blank decode encode encode_json frames header partition_of split with_id",
    "oracles.group_total": "weighted_total WeightedTotal",
    "oracles.heavy": "heavy_hitters bounds Hitters",
    "oracles.kernels.arrays": "above add_counts integers runs",
    "oracles.mechanisms": "automatic oracle",
    "oracles.mechanisms.entropy": "Seeded Source System source",
    "oracles.mechanisms.protocol": "Charge Mechanism Oracle",
    "oracles.multi": "multi",
    "oracles.numbers": "LINEAR LOG Numbers Scale Quantity Histogram",
    "oracles.query": "Query load load_file parse",
    "oracles.risk": "recommend risk",
    "oracles.types": "positions usable_epsilon usable_size",
    "producers": "Client Publisher HttpPublisher NotYet BudgetSpent",
    "producers.entropy": "Keyed",
    "hubbub": "Client Publisher load oracle read",
    "hubbub.kafka": "Kafka",
    "aggregator.demo.broker": "find_program",
}
"""The names of each module that users import."""


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in NAMES.items() for name in names.split()]
)
def test_a_public_name_stays(module, name):
    assert hasattr(importlib.import_module(module), name)


def loaded(code):
    """Return the names of the modules that the code loads in a new process."""
    program = f"import sys; {code}; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    return set(process.stdout.split())


def test_a_client_loads_no_daemon_and_no_optional_package():
    modules = loaded("import producers")
    assert {name.partition(".")[0] for name in modules} & {
        "scipy",
        "aiokafka",
        "aiohttp",
        "faust",
        "aggregator",
    } == set()
    assert not any(name.startswith("hubbub.") for name in modules)


def test_oracles_and_clients_load_no_kernel_that_needs_scipy():
    heavy = {f"oracles.kernels.{name}" for name in ("exact", "posterior", "priors", "tails")}
    assert loaded("import oracles, producers") & heavy == set()
