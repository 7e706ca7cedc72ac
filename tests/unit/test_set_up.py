"""A failed set-up by `make` ends with one sentence of advice."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLD = """#!/bin/sh
case "$2" in
    *exit*) exit 1 ;;
    *) echo 3.9 ;;
esac
"""
WITHOUT_PACKAGES = """#!/bin/sh
case "$2" in
    venv) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    pip) echo "no matching distribution" >&2; exit 1 ;;
esac
"""
SLOW = """#!/bin/sh
case "$2" in
    venv) echo started >started; sleep 600 ;;
esac
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a blank and a letter outside of ASCII."""
    folder = tmp_path / "clöne of it"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    return folder


def start(folder, script):
    """Start `make .venv/.all` with a Python that does what the script says."""
    if script is not None:
        python = folder / "python3"
        python.write_text(script)
        python.chmod(0o755)
    return subprocess.Popen(
        ["make", "--file", ROOT / "Makefile", ".venv/.all", f"PYTHON={folder / 'python3'}"],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (OLD, "python3 is 3.9. Name another: make .venv/.all PYTHON=/path/to/python3.11"),
        (None, "python3 is missing. Name another: make .venv/.all PYTHON=/path/to/python3.11"),
        (WITHOUT_PACKAGES, "hubbub[all] is not installed, and the lines above say why. Without a connection, give pip"),
    ],
    ids=["old", "missing", "offline"],
)
def test_a_failed_set_up_says_what_to_do(folder, script, sentence):
    process = start(folder, script)
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert sentence in output
    assert not (folder / ".venv/.all").exists()


def test_an_interrupted_set_up_has_no_traceback(folder):
    os.mkfifo(folder / "started")
    process = start(folder, SLOW)
    assert (folder / "started").read_text() == "started\n"  # waits for the writer
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "stopped; the next make begins with what is missing" in output
    assert "Traceback" not in output
    assert not (folder / ".venv/.made").exists()
