"""The option `--retire`, which names the queries that end with the next query file."""

import argparse
import os


def add_retire(parser: argparse.ArgumentParser) -> None:
    """Add the option. `retired` reads it."""
    meaning = "query to retire, which the file does not have any more; may be repeated (HUBBUB_RETIRE=a,b)"
    parser.add_argument("--retire", action="append", metavar="NAME", help=meaning)


def retired(options: argparse.Namespace) -> set[str]:
    """Return the names of the option, or else of its environment variable."""
    names = options.retire or (os.environ.get("HUBBUB_RETIRE") or "").split(",")
    # An empty HUBBUB_RETIRE is a list of one empty name.
    return {name.strip() for name in names} - {""}
