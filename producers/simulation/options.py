"""The options that all commands share which send as clients do."""

import argparse
import math
import os
import re

from hubbub.kafka import add_options
from oracles.errors import ParameterError
from oracles.query import Query, load
from producers.batch import REPORTS

PORT = 8804


def add_sending_options(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    named = os.environ.get("HUBBUB_QUERIES") or "hubbub.toml"
    where = "the query file (HUBBUB_QUERIES; default: hubbub.toml)"
    parser.add_argument("--queries", default=named, metavar="FILE", help=where)
    which = "the query that is answered (default: the only one of the file)"
    parser.add_argument("--query", metavar="Q", help=which)
    most = f"reports a frame (default: {REPORTS})"
    parser.add_argument("--frame", type=positive, default=REPORTS, metavar="N", help=most)
    host, port = os.environ.get("HUBBUB_HOST") or "127.0.0.1", os.environ.get("HUBBUB_PORT") or str(PORT)
    parser.add_argument("--host", default=host, metavar="H", help="of /metrics (HUBBUB_HOST; default: 127.0.0.1)")
    at = f"of /metrics (HUBBUB_PORT; default: {PORT}; 0: any free one)"
    parser.add_argument("--port", type=_port, default=port, metavar="N", help=at)


def positive(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,17}", text):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def whole(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"must be a whole number of at most 18 digits, got {text!r}")
    return int(text)


def rate(text: str) -> float:
    """Answers a second; infinity for "max"."""
    if text == "max":
        return math.inf
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f'must be a number above 0, or "max", got {text!r}')
    return float(text)


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 65535, got {text!r}")
    return int(text)


def chosen(options: argparse.Namespace) -> Query:
    """The query that `--query` names, or the only one."""
    queries = load(options.queries)
    if options.query is None and len(queries) == 1:
        return next(iter(queries.values()))
    if options.query not in queries:
        said = "--query must say which" if options.query is None else f"there is no query {options.query!r}"
        raise ParameterError(f"{options.queries}: {said}: {', '.join(queries)}")
    return queries[options.query]
