"""Public import names, which stay when modules move, and the weight of a client."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hubbub

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
    "oracles.frame": "MAX_FRAME TICK Frame blank decode encode encode_json frames header partition_of slots split "
    "with_id",
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
    "hubbub": "BudgetSpent Client FileKeyStore HttpPublisher Kafka NotYet Publisher calibrate encode_json "
    "find_program load oracle read weighted_total",
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
    # The files of a client sync their folder by it, and it imports the standard library alone.
    light = {"hubbub.disk"}
    assert {name for name in modules if name.startswith("hubbub.")} <= light


def test_oracles_and_clients_load_no_kernel_that_needs_scipy():
    heavy = {f"oracles.kernels.{name}" for name in ("exact", "posterior", "priors", "tails")}
    assert loaded("import oracles, producers") & heavy == set()


IMPORT = re.compile(r"^ *from ((?:oracles|producers|hubbub|aggregator)[a-z_.]*) import ([\w, ]+)$", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*.ipynb"))]


def imports():
    """Yield the page, the module and the name of each import in the documents."""
    for page in PAGES:
        text = page.read_text()
        if page.suffix == ".ipynb":
            text = "".join(line for cell in json.loads(text)["cells"] for line in [*cell["source"], "\n"])
        for module, names in IMPORT.findall(text):
            yield from ((page.name, module, name.strip()) for name in names.split(","))


def test_each_name_of_the_documents_has_one_import_path_and_is_exported():
    paths = list(imports())
    assert {module for _, module, _ in paths} == {"hubbub"}
    assert {name for _, _, name in paths} <= set(hubbub.__all__)
    assert set(hubbub.__all__) == set(hubbub._HOMES)


def test_the_types_of_the_front_door_are_those_of_its_names():
    text = (ROOT / "hubbub" / "__init__.pyi").read_text()
    homes = re.findall(r"^from ([\w.]+) import (\w+) as \2$", text, re.MULTILINE)
    assert sorted(name for _, name in homes) == hubbub.__all__
    for module, name in homes:
        assert getattr(importlib.import_module(module), name) is getattr(hubbub, name)
