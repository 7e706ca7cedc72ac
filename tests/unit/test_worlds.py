"""Worlds: a short one is exact, its seed repeats it, and its checks see a planted bug."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.worlds import coverage, seeds, story
from tests.worlds.__main__ import main
from tests.worlds.mutants import BY_NAME
from tests.worlds.plan import draw, read
from tests.worlds.run import MIX
from tests.worlds.shrink import Shrinker
from tests.worlds.story import Step

ROOT = Path(__file__).parents[2]
SEED = 5


def run(*options, code=0, **environment):
    """Run one short world in a process of its own. What killed workers leave behind must not meet other tests."""
    command = [sys.executable, "-m", "tests.worlds", "--seed", str(SEED), "--mix", "short 3", "--json", *options]
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


@pytest.mark.parametrize("name", BY_NAME)
def test_a_planted_bug_changes_the_product_as_it_is(name):
    with BY_NAME[name].applied():
        pass


def test_a_plan_comes_back_from_its_file():
    plan = draw(SEED, "short 3")
    assert read(plan.text(check="missing", mutant=None)) == (plan, {"check": "missing", "mutant": None})


def test_the_seeds_mean_the_worlds_of_the_committed_list():
    content = json.loads(seeds.FILE.read_text(encoding="utf-8"))
    assert content == {"mix": MIX, "plans": seeds.hashes()}, "new draws need a mix of a new name"


def test_a_failed_world_becomes_small():
    """The failure needs one fault and two of the records."""
    plan = draw(SEED, MIX)
    fault = plan.faults[7]
    frames = {plan.frames[20].rows, plan.frames[90].rows}

    def fails(candidate):
        has_fault = any(other.pick == fault.pick and other.kind == fault.kind for other in candidate.faults)
        return has_fault and frames <= {frame.rows for frame in candidate.frames}

    shrinker = Shrinker(fails, most_runs=2000)
    small = shrinker.shrink(plan)
    assert len(small.faults) == 1
    assert len(small.frames) == 2
    assert small.mix.workers == 1
    assert small.mix.lost_acks == small.mix.partial_fetches == 0.0


def test_a_story_has_a_line_for_each_step():
    steps = [
        Step(0.0, 0, "start", ("worker1",)),
        Step(1.0, 1, "append", ("w.rejects", 0, 4, "worker1", "'a|1'", "-")),
        Step(1.0, 2, "append", ("w.rejects", 0, 5, "worker1", "'a|2'", "-")),
        Step(2.5, 3, "kill", ("worker1", "at once")),
        Step(3.0, 4, "append", ("w.reports", 0, 5, "sender", "None", "12")),
    ]
    assert story.lines(steps, 3) == [
        "   0.000 s  worker1: starts",
        "   1.000 s  worker1: deletes a|1, a|2, in rejects 0, offsets 4 to 5",
        "   2.500 s  worker1: is killed at once",
    ]


def test_the_report_names_what_a_fault_never_met():
    meetings = Counter({(fault, name): 1 for name in coverage.PHASES for fault in coverage.FAULTS})
    assert coverage.empty_cells(meetings) == []
    del meetings["kill", "recovery"]
    assert coverage.empty_cells(meetings) == [("kill", "recovery")]
    assert len(coverage.table(meetings)) == 1 + len(coverage.PHASES)


@pytest.mark.parametrize("path", sorted((ROOT / "tests/worlds/bugs").glob("*.json")), ids=lambda path: path.stem)
def test_a_bug_that_a_world_has_found_stays_mended(path):
    """Its file names the mutant that brings the bug back."""
    command = [sys.executable, "-m", "tests.worlds", "--json", "--replay", str(path)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["check"] in {violation["check"] for violation in json.loads(process.stdout)["found"]}

    process = subprocess.run([*command, "--mutant", "none"], cwd=ROOT, capture_output=True, check=False)
    assert json.loads(process.stdout)["found"] == []


@pytest.mark.parametrize(
    "arguments",
    [["--seed", "-1"], ["--seeds", "3:3"], ["--seeds", "x"], ["--mutant", "no such bug"], ["--replay", "no such file"]],
)
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
