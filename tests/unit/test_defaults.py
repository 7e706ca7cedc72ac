"""Each default has one home: a change there shows in `hubbub check`, `hubbub plan` and `--help`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from aggregator.counting.checkpoint_plan import INTERVAL
from aggregator.process.defaults import MEMORY, RETENTION
from hubbub.command.options import duration_text, size_text

ROOT = Path(__file__).parents[2]
CHANGES = {
    "aggregator/counting/checkpoint_plan.py": {"INTERVAL = 2.0": "INTERVAL = 4.0", "= 32 << 20": "= 3 << 20"},
    "aggregator/process/defaults.py": {"24 * 3600": "31 * 3600", "256 << 20": "192 << 20"},
    "aggregator/process/state_limit.py": {"4 << 30": "5 << 30"},
    "aggregator/plan/fleet.py": {
        "partitions: int = 12": "partitions: int = 13",
        "7 * 86_400": "9 * 86_400",
        "100 << 20": "101 << 20",
        "10 << 20": "11 << 20",
        "speed: float = 1.0": "speed: float = 1.5",
    },
    "oracles/discover/__init__.py": {"FAMILY_ERROR = 0.05": "FAMILY_ERROR = 0.04"},
    "oracles/frame/frame.py": {"MAX_FRAME = 1 << 20": "MAX_FRAME = 2 << 20"},
}
COMMANDS = """
import sys
from hubbub.__main__ import main

for arguments in (["worker", "--help"], ["board", "--help"], ["check", "--help"], ["plan", "--help"],
                  ["check", "hubbub.toml", "--long"], ["plan", "--rate", "1e8", "--queries", "hubbub.toml"]):
    print("$", *arguments)
    try:
        main(arguments)
    except SystemExit:
        pass
"""
QUERY = '[queries.homepage]\ndomain = 1000\noracle = "oue"\nanswers = "once"\nepsilon = 1.0\npane = "10s"\n'


def outputs(folder):
    """Return the output of each command with the packages of a folder."""
    environment = {"PYTHONPATH": str(folder), "COLUMNS": "1000", "PATH": ""}
    finished = subprocess.run(
        [sys.executable, "-c", COMMANDS], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    parts = re.split(r"^\$ (.*)\n", finished.stdout, flags=re.MULTILINE)[1:]
    # The output wraps, so a number and its unit can be on two lines.
    return {command: " ".join(text.split()) for command, text in zip(parts[::2], parts[1::2], strict=True)}


def test_a_changed_default_shows_wherever_it_is_stated(tmp_path):
    for package in ("oracles", "hubbub", "aggregator"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "static"))
    for path, changes in CHANGES.items():
        text = (tmp_path / path).read_text()
        for old, new in changes.items():
            assert text.count(old) == 1, (path, old)
            text = text.replace(old, new)
        (tmp_path / path).write_text(text)
    (tmp_path / "hubbub.toml").write_text(QUERY)

    texts = outputs(tmp_path)
    worker, board, check = (texts[f"{name} --help"] for name in ("worker", "board", "check"))
    assert "HUBBUB_CHECKPOINT_BYTES_PER_S; default: 3MiB)" in worker
    assert "HUBBUB_MAX_FRAME; default: 2MiB)" in worker
    assert "HUBBUB_RETENTION; default: 31h)" in board
    assert "HUBBUB_BOARD_MEMORY; default: 192MiB)" in board
    assert "(default: 13)" in check
    assert "(HUBBUB_MAX_STATE; default: 5GiB)" in check
    for default in ("13", "9d", "101MiB", "11MiB", "0.04", "1.5; benchmarks/costs.py measures it"):
        assert f"(default: {default})" in texts["plan --help"]
    assert "once in 4 s" in texts["check hubbub.toml --long"]
    assert "31 hours in 192.0 MiB" in texts["check hubbub.toml --long"]
    assert "for 31 hours" in texts["plan --rate 1e8 --queries hubbub.toml"]


def test_the_pages_state_the_defaults_of_the_code():
    options, worker = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("options.md", "worker.md"))
    assert f"| `HUBBUB_RETENTION` | {duration_text(RETENTION)} |" in options
    assert f"| `HUBBUB_BOARD_MEMORY` | {size_text(MEMORY)} |" in options
    assert f"every {INTERVAL:g} s." in worker
