"""`hubbub pin`: it prints the members of a definition that an application pins."""

import argparse
import json
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from hubbub.command.idle_options import refuse_idle
from hubbub.command.options import add_queries, parser_of, run
from oracles.errors import ParameterError
from oracles.query import Query, load
from oracles.types import MAX_EPSILON
from producers.errors import DeliveryError, NotAllowed
from producers.pins import pins_of
from producers.publishers.pinned_query import pin_query

HELP = """\
Print the members of a query's definition that matter to a person, as JSON for `pinned` of a client.
A client then sends nothing if a gateway asks for more epsilon, shorter rounds or another question.

example:
  $ hubbub pin homepage --queries hubbub.toml > pinned.json

Read the JSON before you paste it into an application. With --gateway it is what the gateway lists now.
docs/clients.md says which members are upper or lower limits.

Exit code: 0 done; 2 wrong options or query file; 1 the query is not listed, or the gateway does not answer."""

_LISTING = 32 << 20
"""Upper limit of a list of queries, in bytes."""
_PATIENCE = 30.0
"""Seconds to wait for a gateway."""
_LOCAL = ("localhost", "127.0.0.1", "::1")


def main(arguments: list[str]) -> int:
    options = _options(arguments)

    def work() -> None:
        query = _from_gateway(options.gateway, options.name) if options.gateway else _from_file(options)
        text = json.dumps(pins_of(query, digest=options.digest), indent=2, ensure_ascii=False)
        sys.stdout.write(f"{text}\n")

    return run("pin", work)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("pin", HELP)
    parser.add_argument("name", metavar="NAME", help="name of the query")
    add_queries(parser)
    gateway = "address of a gateway that lists the query; takes precedence over --queries"
    parser.add_argument("--gateway", metavar="URL", help=gateway)
    digest = "print the digest too: then no other definition is answered"
    parser.add_argument("--digest", action="store_true", help=digest)
    options = parser.parse_args(arguments)
    if options.gateway:
        refuse_idle(parser, arguments, ("--queries",), "with --gateway")
    return options


def _from_file(options: argparse.Namespace) -> Query:
    queries = load(options.queries)
    if options.name not in queries:
        raise NotAllowed(f"{options.queries} has no query {options.name!r}; it has {', '.join(queries)}")
    return queries[options.name]


def _from_gateway(url: str, name: str) -> Query:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        rule = "https://HOST[:PORT] (http:// only on this machine)"
        raise ParameterError(f"a gateway's address must be {rule}, got {url!r}")
    try:
        address = f"{url.rstrip('/')}/v1/queries"
        with urllib.request.urlopen(address, timeout=_PATIENCE) as answer:  # noqa: S310 - the scheme is checked
            listing = answer.read(_LISTING)
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise DeliveryError(f"{url} did not list its queries: {error}") from error
    return pin_query(listing, name, MAX_EPSILON, url)
