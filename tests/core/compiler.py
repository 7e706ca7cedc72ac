"""The core in C, compiled once for all tests of a process: `python -m tests.core.compiler` says whether that works."""

import ctypes
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.brokers import Unavailable, skip

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "clients" / "c"
FOLDER = ROOT / "build" / "core"
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Wvla", "-Werror")
SECONDS = 240


def compiler():
    """Return the command of the machine's C compiler."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return name
    raise Unavailable("no C compiler is installed (apt-get install gcc libc6-dev)")


def sources():
    """Return the sources of the core, and its headers."""
    if not SOURCE.exists():
        raise Unavailable("the core's source is not here: an sdist has none")
    return sorted((SOURCE / "src").glob("*.c")), sorted(SOURCE.rglob("*.h"))


def run(*command, **options):
    """Run a command, and return its output. A failure shows its errors."""
    words = list(map(str, command))
    process = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, **options)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)}: {process.stderr or process.stdout}")
    return process.stdout


def compiled(name, *flags, extra=()):
    """Return the path of a program or library of the sources and of extra files. It is made again if one changes."""
    files, headers = sources()
    # With sanitizers the library needs their own one first: see test_fuzz.py.
    flags = [*flags, *os.environ.get("HUBBUB_CORE_FLAGS", "").split()]
    command = [compiler(), *WARNINGS, *flags, f"-I{SOURCE}", f"-I{SOURCE / 'src'}"]
    texts = [path.read_bytes() for path in (*files, *headers, *extra)]
    digest = hashlib.sha256(b"\0".join([" ".join(command).encode(), *texts])).hexdigest()
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}-{digest[:16]}"
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            draft = path.with_suffix(".new")
            run(*command, "-o", draft, *files, *extra)
            draft.rename(path)
    return path


@functools.cache
def library():
    """Return the core as a library of this process, with the functions inside of it, or skip the test."""
    try:
        return ctypes.CDLL(compiled("hubbub.so", "-O2", "-g", "-shared", "-fPIC"))
    except Unavailable as error:
        skip(error)


if __name__ == "__main__":
    try:
        compiled("hubbub.so", "-O2", "-g", "-shared", "-fPIC")
    except Unavailable as error:
        sys.exit(str(error))
