"""Worlds: a short one is exact, its seed repeats it, and its checks see a planted bug."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.__main__ import main
from tests.worlds.mutants import BY_NAME
from tests.worlds.run import run_world

SEED = 5


@pytest.fixture(scope="module")
def world():
    return run_world(SEED, "short")


def test_a_world_with_faults_is_exact(world):
    assert world.violations == []
    assert world.finals > 10
    assert world.faults == 8


@pytest.mark.long
def test_a_seed_gives_the_same_trace_with_another_order_of_hashes(world):
    code = f"from tests.worlds.run import run_world; print(run_world({SEED}, 'short').trace)"
    environment = os.environ | {"PYTHONHASHSEED": "77"}
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=Path(__file__).parents[2], capture_output=True, check=True
    )
    assert output.stdout.decode().split()[-1] == world.trace


def test_a_planted_bug_is_found():
    assert run_world(SEED, "short", mutant=BY_NAME["finals are not sent"]).violations


@pytest.mark.parametrize("arguments", [["--seed", "-1"], ["--seeds", "3:3"], ["--seeds", "x"], ["--mutant", "none"]])
def test_bad_arguments_end_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2


def test_the_page_names_the_bugs_of_each_step():
    page = (Path(__file__).parents[2] / "docs/exactness.md").read_text(encoding="utf-8")
    steps = {}
    for mutant in BY_NAME.values():
        steps.setdefault(mutant.step, []).append(mutant.name)
    assert [f"| {step} | {'; '.join(steps[step])} |" for step in sorted(steps)] == [
        line for line in page.splitlines() if line.startswith("| ") and line[2].isdigit()
    ]
