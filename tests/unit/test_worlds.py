"""Worlds: a short one is exact, its seed repeats it, and its checks see a planted bug."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.__main__ import main
from tests.worlds.mutants import BY_NAME

ROOT = Path(__file__).parents[2]
SEED = 5


def run(*options, code=0, **environment):
    """Run one short world in a process of its own. What killed workers leave behind must not meet other tests."""
    command = [sys.executable, "-m", "tests.worlds", "--seed", str(SEED), "--mix", "short", "--json", *options]
    process = subprocess.run(command, env=os.environ | environment, cwd=ROOT, capture_output=True, check=False)
    assert process.returncode == code, process.stderr.decode()
    return json.loads(process.stdout)


@pytest.fixture(scope="module")
def world():
    return run()


def test_a_world_with_faults_is_exact(world):
    assert world["found"] == []
    assert world["finals"] > 10
    assert world["faults"] == 8


@pytest.mark.long
def test_a_seed_gives_the_same_trace_with_another_order_of_hashes(world):
    assert run(PYTHONHASHSEED="77")["trace"] == world["trace"]


@pytest.mark.long
def test_a_planted_bug_is_found():
    assert run("--mutant", "finals are not sent", code=1)["found"]


@pytest.mark.parametrize("arguments", [["--seed", "-1"], ["--seeds", "3:3"], ["--seeds", "x"], ["--mutant", "none"]])
def test_bad_arguments_end_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2


def test_the_page_names_the_bugs_of_each_step():
    page = (ROOT / "docs/exactness.md").read_text(encoding="utf-8")
    steps = {}
    for mutant in BY_NAME.values():
        steps.setdefault(mutant.step, []).append(mutant.name)
    assert [f"| {step} | {'; '.join(steps[step])} |" for step in sorted(steps)] == [
        re.sub("[()]", "", line) for line in page.splitlines() if line.startswith("| ") and line[2].isdigit()
    ]
