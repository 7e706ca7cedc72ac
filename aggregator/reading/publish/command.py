"""`hubbub publish`: a static page of everything that was ever asked, for a public web server."""

import argparse
import sys
from pathlib import Path

from aggregator.reading.publish.page import page
from hubbub.asked.asked_list import AskedError
from hubbub.asked.list_folder import read_folder
from hubbub.command.options import parser_of, run

HELP = """\
Write a static page of everything that was ever asked, from the lists of what is asked alone.

example:
  $ hubbub publish public --asked asked

The folder gets index.html and a copy of each list. The page needs no script and no server. It says for each
question what is asked, why and by whom, the possible answers, and what a report and a life tell. Equal lists
give equal bytes.

Exit code: 0 done; 2 wrong options; 1 the lists do not follow each other, or the folder cannot be written."""


def main(arguments: list[str]) -> int:
    parser = parser_of("publish", HELP)
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the page")
    parser.add_argument("--asked", type=Path, required=True, metavar="DIR", help="folder of the lists")
    options = parser.parse_args(arguments)
    return run("publish", lambda: _write(options))


def _write(options: argparse.Namespace) -> None:
    lists = read_folder(options.asked)
    folder: Path = options.folder
    try:
        (folder / "asked").mkdir(parents=True, exist_ok=True)
        for signed_list in lists:
            (folder / "asked" / f"{signed_list.number}.json").write_bytes(signed_list.file)
        (folder / "index.html").write_text(page(lists), encoding="utf-8")
    except OSError as error:
        raise AskedError(f"{folder} cannot be written: {error.strerror}") from None
    sys.stdout.write(f"{folder / 'index.html'} shows {len(lists)} lists of {lists[-1].application}\n")
