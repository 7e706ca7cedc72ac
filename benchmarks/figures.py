"""Measure the figures of docs that have a name, and write them to docs/figures.json and into the pages.

A page has such a figure between two comments: <!-- figure NAME -->1.5<!-- /figure -->. The file adds machine,
commit and load. Work beside the measurement makes figures worse, so a busy machine is refused.

python -m benchmarks.figures                     all groups, on a machine with a load of at most 0.2
python -m benchmarks.figures imports --load 8    one group, on a busier machine; the file says how busy it was
"""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import admission, imports
from benchmarks.harness import arguments

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FILE = DOCS / "figures.json"
LOAD = 0.2
"""The highest load of an idle machine, as the mean number of running processes in a minute."""
MARK = re.compile(r"<!-- figure ([\w.]+) -->(.*?)<!-- /figure -->")
GROUPS: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "imports": imports.figures,
    "admission": admission.figures,
}
"""The benchmarks with named figures, each with the function that measures them."""


def figures_of(text: str) -> list[tuple[str, str]]:
    """Return the names and texts of the figures on a page."""
    return MARK.findall(text)


def replaced(text: str, records: Mapping[str, Mapping[str, object]]) -> str:
    """Return the page with the recorded figures."""

    def figure(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- figure {name} -->{records[name]['text']}<!-- /figure -->" if name in records else match[0]

    return MARK.sub(figure, text)


def machine() -> str:
    """Return the processor and the number of cores, as a reader compares them."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if sys.platform == "linux" else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def commit() -> str:
    """Return the commit of the checkout. A plus says that files differ from it."""
    command = ("git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+")
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()  # noqa: S603


def main() -> int:
    options = arguments(__doc__, GROUPS, load=(LOAD, "the highest load of the machine"))
    load = round(os.getloadavg()[0], 2)
    if load > options.load:
        print(
            f"figures: the load of the last minute is {load}, above {options.load:g}, so other work would change the "
            f"figures. Stop it and wait a minute, or accept the load with `make figures LOAD={load}`"
        )
        return 1

    records = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    about = {"machine": machine(), "python": platform.python_version(), "commit": commit(), "load": load}
    for group in options.cases or GROUPS:
        for name, text in GROUPS[group]().items():
            records[f"{group}.{name}"] = {"text": text, **about}
            print(f"{group}.{name}: {text}")

    FILE.write_text(json.dumps(dict(sorted(records.items())), indent=2) + "\n", encoding="utf-8")
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if replaced(text, records) != text:
            page.write_text(replaced(text, records), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
