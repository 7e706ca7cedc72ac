"""The core reads any bytes without an error of memory or undefined behaviour: a fuzzer under ASan and UBSan."""

import json
import os
import sys

import pytest

from tests.brokers import Unavailable, skip
from tests.core.compiler import ROOT, compiled, run

FOLDER = ROOT / "tests" / "core"
VECTORS = ROOT / "tests" / "vectors"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def program():
    """The fuzzer, with the core and both sanitizers inside."""
    try:
        return compiled("fuzz", "-O1", "-g", *SANITIZERS, extra=[FOLDER / "fuzz.c", FOLDER / "fuzz_targets.c"])
    except Unavailable as error:
        skip(error)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A file with the definitions and the items of the vectors, one on each line."""
    definitions = json.loads((VECTORS / "definitions.json").read_text())
    histories = json.loads((VECTORS / "histories.json").read_text())
    entries = [json.dumps(case["definition"], separators=(",", ":")) for case in definitions["good"]]
    entries += [step["item"] for life in histories for step in life["steps"][-1:] if "item" in step]
    path = tmp_path_factory.mktemp("fuzz") / "corpus"
    path.write_text("\n".join(entry for entry in entries if len(entry) < 60_000) + "\n")
    return path


@pytest.mark.parametrize(("target", "count"), [("texts", 20_000), ("lives", 400)])
def test_a_short_fuzz_finds_nothing(program, corpus, target, count):
    assert run(program, target, count, 1, corpus) == "no finding\n"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize(("target", "count"), [("texts", 100_000), ("lives", 2000)])
def test_a_long_fuzz_finds_nothing(program, corpus, target, count, seed):
    assert run(program, target, count, seed, corpus) == "no finding\n"


@pytest.mark.long
def test_the_vectors_pass_under_the_sanitizers():
    library = run(os.environ.get("CC", "cc"), "-print-file-name=libasan.so").strip()
    environment = {
        **os.environ,
        "HUBBUB_CORE_FLAGS": " ".join(SANITIZERS),
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    names = ("test_definitions.py", "test_histories.py", "test_reports.py", "test_crashes.py")
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *(FOLDER / name for name in names)]
    assert "100%" in run(*arguments, cwd=ROOT, env=environment)
