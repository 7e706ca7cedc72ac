"""The command that runs the studies, stores their results in build/accuracy and writes docs/accuracy.md.

python -m benchmarks.accuracy [STUDY ...] [--data FOLDER] [--page]

Without a name all studies run. FOLDER (or HUBBUB_DATA) contains the public data sets. If a data set is missing, its
parts are left out, and the page says so. With --page the command only writes the page, from the stored results.
"""

import argparse
import importlib
import os
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.accuracy.page import RESULTS, write

STUDIES = {
    "calibrate": "Calibrate's study",
    "priors": "A prior without a family",
    "methods": "Wang et al.'s study of methods",
    "fixed_sets": "Fixed sets of values",
    "attributes": "RS+FD and Sarve, on several attributes",
    "intervals": "Intervals, sets, differences and ranks",
    "groups": "Groups and pairs",
    "looks": "Comparisons that are read at each final",
    "hitters": "Heavy hitters and alerts",
    "panels": "Clients that repeat their answers",
    "choice": "The best method by task and data, and recommend",
    "attacks": "Forged reports",
    "live": "Live: a stream through the daemon",
}
"""The studies in the order of the page. Each is a module of this package with `run(track, folder)`."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description="Measure how accurate the shares are."
    )
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"{', '.join(STUDIES)} (default: all)")
    parser.add_argument("--data", default=os.environ.get("HUBBUB_DATA", ""), help="folder of the public data sets")
    parser.add_argument("--page", action="store_true", help="write the page from the stored results, without a run")
    options = parser.parse_args()
    unknown = sorted(set(options.studies) - STUDIES.keys())
    if unknown:
        parser.error(f"unknown study {unknown[0]!r}; choose one of {', '.join(STUDIES)}")
    console = Console()
    for name in [] if options.page else options.studies or STUDIES:
        study = importlib.import_module(f"benchmarks.accuracy.{name}")
        start = time.monotonic()
        columns = TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn()
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bars:
            section = study.run(bars.track, Path(options.data or "no data"))
        section.save(RESULTS / f"{name}.json")
        console.print(f"{STUDIES[name]}: {time.monotonic() - start:.0f} s")
        for missing in section.omissions:
            console.print(f"skipped: {missing}")
    write(STUDIES)


if __name__ == "__main__":
    main()
