"""A test of the wheel and the sdist in clean environments: `python tests/dist.py FOLDER 3.11 3.12`.

On each Python it checks the base install, which has NumPy only, and then every command with all extras. It reports a
Python that is not available, and fails for it if MISSING=fail.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

UV = Path(sys.executable).with_name("uv")
BASE = """
import json, sys
from importlib.resources import files
import numpy as np
import hubbub
from producers.simulation.crowd.scenario import BUNDLED
schema = json.loads((files("hubbub") / "schemas" / "record.json").read_text())
assert schema["$id"] == "urn:hubbub:record:3" and "surge" in BUNDLED
o = hubbub.oracle("olh", epsilon=1.0, size=64)
tally = o.zeros()
o.add(tally, o.perturb(np.arange(10_000) % 64))
assert abs(o.estimate(tally, 10_000).shares.sum() - 1) < 1
assert "scipy" not in sys.modules
"""
ALL = """
from importlib.resources import files
from hubbub.__main__ import COMMANDS, main
for name in COMMANDS:
    try:
        main([name, "--help"])
    except SystemExit as ended:
        assert ended.code == 0
static = files("aggregator.board") / "static"
from oracles.kernels import c_library
assert c_library.name() == "{kernels}"
assert (static / "index.html").is_file() and (static / "vendor" / "uPlot.js").is_file()
assert (static.parent / "runbooks" / "HubbubNoWorker.md").is_file()
import hubbub
hubbub.read, hubbub.Publisher
from aggregator.reading.export.reader import table
assert "unbiased" in table([]).to_pandas().columns
"""


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True, cwd=tempfile.gettempdir(), stdout=subprocess.DEVNULL)


def contents(packages: list[Path]) -> list[str]:
    """Return the names of all files of the wheel and the sdist."""
    wheel, sdist = packages
    with zipfile.ZipFile(wheel) as files, tarfile.open(sdist) as archive:
        return files.namelist() + archive.getnames()


def python_of(version: str) -> str:
    """Return the name by which uv finds a version of Python. uv finds those of pyenv only by their paths."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(installed[-1]) if installed else version


def main(folder: Path, pythons: list[str]) -> int:
    packages = sorted(path.resolve() for path in folder.iterdir() if path.suffix in (".whl", ".gz"))
    assert [path.suffix for path in packages] == [".whl", ".gz"], packages
    assert not [name for name in contents(packages) if "clients/" in name]
    works = missing = 0
    for version in pythons:
        with tempfile.TemporaryDirectory(prefix="hubbub-dist-") as place:
            venv = subprocess.run(
                [UV, "venv", "--quiet", "--python", python_of(version), f"{place}/venv"],
                capture_output=True,
                text=True,
                check=False,
            )
            if venv.returncode:
                print(f"Python {version}: not here: {venv.stderr.strip().splitlines()[-1]}")
                missing += 1
                continue
            python = Path(place, "venv", "bin", "python")
            for path in packages:
                install = (UV, "pip", "install", "--quiet", "--reinstall-package", "hubbub", "--python", python)
                run(UV, "venv", "--quiet", "--clear", "--python", python_of(version), f"{place}/venv")
                run(*install, path)
                run(python, "-c", BASE)
                run(*install, f"hubbub[all,pandas] @ {path.as_uri()}")
                run(python, "-W", "ignore", "-c", ALL.replace("{kernels}", "c" if shutil.which("cc") else "numpy"))
                print(f"Python {version}: {path.name} works")
                works += 1
    return 0 if works and not (missing and os.environ.get("MISSING") == "fail") else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
