"""Installed releases of hubbub: wheels that are built from the repository's history or from the present files."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from tests.brokers import ROOT, Unavailable

PRESENT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
"""The release that the present files become. An installation may still have the number of an older state."""
RELEASES = tomllib.loads((ROOT / "tests" / "upgrade" / "releases.toml").read_text())
"""The commit and the formats version of each release."""
CACHE = ROOT / "build" / "releases"
VENDOR = Path("aggregator/board/static/vendor")
"""The charts of the page, which a build would fetch."""
TREE = ("aggregator", "hubbub", "oracles", "producers", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE")


def released(name):
    """Return the folder of an installed release. Raise Unavailable if the repository lacks its commit.

    The present release has no tag yet, so it is built from the present files.
    """
    commit = RELEASES[name]["commit"]
    look = subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True, check=False)
    if look.returncode and name == PRESENT:
        return other_build(f"{name}-present", name)
    if look.returncode:
        raise Unavailable(f"release {name} is not built: the repository lacks commit {commit}, as a shallow clone does")

    def source(folder):
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x"], cwd=folder, check=True, input=archive)

    return _installed(f"{name}-{commit}", source)


def other_build(name, version):
    """Return the folder of a build of the present files that has another version."""
    shutil.rmtree(CACHE / name, ignore_errors=True)

    def source(folder):
        for path in TREE:
            copy = shutil.copytree if (ROOT / path).is_dir() else shutil.copy
            copy(ROOT / path, folder / path)
        file = folder / "pyproject.toml"
        file.write_text(re.sub(r'^version = ".*"$', f'version = "{version}"', file.read_text(), flags=re.MULTILINE))

    return _installed(name, source)


def _installed(name, source):
    """Build a wheel of a source tree and unpack it, once for each name. It counts with NumPy, to save a compilation."""
    CACHE.mkdir(parents=True, exist_ok=True)
    target = CACHE / name
    half = CACHE / f"{name}.half"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        shutil.rmtree(half, ignore_errors=True)
        tree = half / "tree"
        tree.mkdir(parents=True)
        source(tree)
        if (ROOT / VENDOR).exists():
            shutil.copytree(ROOT / VENDOR, tree / VENDOR, dirs_exist_ok=True)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "-w", half, tree], check=True, env={**os.environ, "CC": "no-compiler"}, timeout=300)
        (wheel,) = half.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(half / "unpacked")
        (half / "unpacked").rename(target)
        shutil.rmtree(half)
    return target
