"""The client for browsers and Node, built in a clean folder once for all tests: `python -m tests.browser.js_client`."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.brokers import Unavailable, skip
from tests.slowness import patience

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "clients" / "js"
FOLDER = ROOT / "build" / "client"
PACKAGE = FOLDER / "package.tgz"
VECTORS = FOLDER / "vectors.mjs"
DEVICE = FOLDER / "device.mjs"
OUTPUT = ("node_modules", "dist")
SECONDS = 240


def program(name):
    """Return the path of node or npm: the machine's, or the one of this environment."""
    path = shutil.which(name) or shutil.which(name, path=Path(sys.executable).parent)
    if path is None:
        raise Unavailable(f"{name} is not installed (apt-get install nodejs npm)")
    return path


def run(name, *arguments, folder=FOLDER, text=None):
    """Run node or npm, and return its output. A failure shows its errors."""
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"}
    command = [program(name), *map(str, arguments)]
    process = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=patience(SECONDS),
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {process.stderr or process.stdout}")
    return process.stdout


def files():
    """Return the files of the client's source."""
    paths = (path for path in SOURCE.rglob("*") if path.is_file())
    return sorted(path for path in paths if path.relative_to(SOURCE).parts[0] not in OUTPUT)


def build():
    """Return the folder of the built package. It is built again if a source file changes."""
    if not SOURCE.exists():
        raise Unavailable("the client's source is not here: an sdist has none")
    program("node")
    FOLDER.parent.mkdir(exist_ok=True)
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in files())).hexdigest()
        stamp = FOLDER / "built"
        if not (stamp.exists() and stamp.read_text() == digest):
            shutil.rmtree(FOLDER, ignore_errors=True)
            for path in files():
                copy = FOLDER / path.relative_to(SOURCE)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
            _make()
            stamp.write_text(digest)
    return FOLDER


def _make():
    try:
        run("npm", "ci", "--no-audit", "--no-fund")
    except RuntimeError as error:
        raise Unavailable(f"the client's packages cannot be fetched: {error}") from error
    run("npm", "run", "build")
    (package,) = json.loads(run("npm", "pack", "--json"))
    (FOLDER / package["filename"]).rename(PACKAGE)
    for name, module in (("vectors.ts", VECTORS), ("device.ts", DEVICE)):
        bundle(FOLDER / "test" / name, module)


def bundle(source, target, *options):
    """Write a module and all that it imports to one file."""
    command = [FOLDER / "node_modules" / ".bin" / "esbuild", source, "--bundle", "--format=esm", f"--outfile={target}"]
    run(*command, *options)


def built():
    """Return the folder of the built package, or skip the test."""
    try:
        return build()
    except Unavailable as error:
        skip(error)


if __name__ == "__main__":
    try:
        build()
    except Unavailable as error:
        sys.exit(str(error))
