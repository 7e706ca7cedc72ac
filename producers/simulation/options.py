"""The options that all commands share which send as clients do."""

import argparse

from hubbub.options import add_address, add_kafka, add_queries, whole
from producers.batch import REPORTS


def add_sending_options(parser: argparse.ArgumentParser) -> None:
    add_kafka(parser)
    add_queries(parser)
    which = "the query that is answered (default: the only one of the file)"
    parser.add_argument("--query", metavar="Q", help=which)
    most = f"reports a frame (default: {REPORTS})"
    parser.add_argument("--frame", type=whole(1), default=REPORTS, metavar="N", help=most)
    add_address(parser, 8804, "/metrics")
