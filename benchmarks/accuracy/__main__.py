"""The command: runs studies, keeps their results in build/accuracy, and writes docs/accuracy.md.

python -m benchmarks.accuracy [STUDY ...] [--data FOLDER] [--page]

Without a name all of them run. FOLDER (or HUBBUB_DATA) holds the public data sets; what needs one that is absent is
left out, and the page says so. With --page nothing is run, the page is written from what is kept.
"""

import argparse
import importlib
import os
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.accuracy.page import KEPT, write

STUDIES = {
    "calibrate": "Calibrate's study",
    "methods": "Wang et al.'s study of methods",
    "attributes": "RS+FD and Sarve, on several attributes",
    "intervals": "Intervals, sets, differences and ranks",
    "hitters": "Heavy hitters and alerts",
    "panels": "Clients that repeat their answers",
    "choice": "The best method by task and data, and recommend",
    "attacks": "Forged reports",
    "live": "Live: a stream through the daemon",
}
"""Each a module of this package with `run(track, folder)`, in the order of the page."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description="How accurate the shares are.")
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)}; all without a name")
    parser.add_argument("--data", default=os.environ.get("HUBBUB_DATA", ""), help="folder of the public data sets")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page from what is kept")
    given = parser.parse_args()
    unknown = sorted(set(given.studies) - STUDIES.keys())
    if unknown:
        parser.error(f"there is no study {unknown[0]!r}; choose of {', '.join(STUDIES)}")
    console = Console()
    for name in [] if given.page else given.studies or STUDIES:
        study = importlib.import_module(f"benchmarks.accuracy.{name}")
        begun = time.monotonic()
        columns = TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn()
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bars:
            section = study.run(bars.track, Path(given.data or "no data"))
        section.save(KEPT / f"{name}.json")
        console.print(f"{STUDIES[name]}: {time.monotonic() - begun:.0f} s")
        for missing in section.skipped:
            console.print(f"skipped: {missing}")
    write(STUDIES)


if __name__ == "__main__":
    main()
