"""`hubbub asked`: lists of what is asked, which people review and sign."""

import argparse
import sys
import time
from pathlib import Path

from hubbub.asked.asked_list import LARGEST_SERVED, AskedError, AskedList
from hubbub.asked.list_folder import read_file, read_folder
from hubbub.asked.next_list import draft
from hubbub.asked.words import changes
from hubbub.command.idle_options import refuse_idle
from hubbub.command.options import add_queries, moment, parser_of, run
from hubbub.moments import utc
from oracles.errors import ParameterError
from oracles.query import load
from producers.files import replace_file

HELP = """\
Make, sign and verify the lists of what is asked. A device that knows the public keys answers nothing else.

example:
  $ hubbub asked verify asked --keys 8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394

steps:
  hubbub asked new     write the next list of a query file, and print what changes in words
  hubbub asked sign    add a signature to a list, without any network
  hubbub asked verify  check all lists of a folder

`hubbub asked STEP --help` lists the options of a step. docs/governance.md describes the way of a question.

Exit code: 0 done; 2 wrong options."""

NEW_HELP = """\
Write the next list of a query file, without signatures, and print what changes since the list before.

example:
  $ hubbub asked new --queries hubbub.toml --application "Example Notes" --previous asked/1.json \\
      --expires 2027-06-01 --output asked/2.json

What costs people more stands first. A changed question keeps its former document for one list more, so that no
device falls silent before the query file changes. A query needs `about`, `purpose`, `contact` and `until`.

Exit code: 0 done; 2 wrong options, or a query that lacks a text; 1 the list before cannot be followed."""

SIGN_HELP = """\
Add the signature of a private key to a list. Read the list before: your signature says that it may be asked.

example:
  $ openssl genpkey -algorithm ed25519 -out key.pem
  $ hubbub asked sign asked/2.json --key key.pem

The command prints the public key, which applications hold. It needs no network.

Exit code: 0 done; 2 wrong options, or no key of Ed25519; 1 the list is malformed, or has this key's signature."""

VERIFY_HELP = """\
Check all lists of a folder: their form, their chain, and the signatures and the end of the newest one.

example:
  $ hubbub asked verify asked --keys 8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394

Exit code: 0 good; 1 not good, with the first fault; 2 wrong options."""


def main(arguments: list[str]) -> int:
    steps = {"new": _new, "sign": _sign, "verify": _verify}
    if arguments[:1] and arguments[0] in steps:
        return steps[arguments[0]](arguments[1:])

    parser = parser_of("asked", HELP)
    parser.add_argument("step", metavar="STEP", choices=tuple(steps), help="what to do: new, sign or verify")
    parser.parse_args(arguments)
    return 0


def _new(arguments: list[str]) -> int:
    parser = parser_of("asked new", NEW_HELP)
    add_queries(parser)
    parser.add_argument(
        "--application", required=True, metavar="TEXT", help="name of the application, the same in all lists"
    )
    parser.add_argument("--previous", type=Path, metavar="FILE", help="list before; without it this is list 1")
    parser.add_argument(
        "--expires", required=True, type=moment, metavar="TIME", help="end of the list: a date or a time"
    )
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE", help="file to write, such as asked/2.json"
    )
    to_drop = "query whose former document is not kept for one list more; may be repeated"
    parser.add_argument("--drop", action="append", default=[], metavar="NAME", help=to_drop)
    options = parser.parse_args(arguments)
    if options.previous is None:
        refuse_idle(parser, arguments, ("--drop",), "without --previous")
    return run("asked new", lambda: _write_next(options))


def _write_next(options: argparse.Namespace) -> None:
    queries = load(options.queries)
    unknown = [name for name in options.drop if name not in queries]
    if unknown:
        raise ParameterError(f"--drop: {options.queries} has no query {unknown[0]!r}")
    if options.output.exists():
        raise ParameterError(f"{options.output} exists; a list never changes, so choose the next number")

    previous_list = None if options.previous is None else read_file(options.previous)
    signed_list = draft(
        queries.values(),
        options.application,
        previous_list,
        time_s=int(time.time()),
        expires=options.expires,
        to_drop=options.drop,
    )
    _check_size(signed_list)
    _write(options.output, signed_list)

    lines = changes(previous_list, signed_list) or ["Nothing changes."]
    sys.stdout.write("".join(f"- {line}\n" for line in lines))
    ends = f"it expires {utc(signed_list.expires)}"
    sys.stdout.write(
        f"{options.output} is list {signed_list.number} of {signed_list.application}; {ends}; hash {signed_list.hash}\n"
    )
    sys.stdout.write(f"next: hubbub asked sign {options.output} --key KEY.pem\n")


def _check_size(signed_list: AskedList) -> None:
    size = len(signed_list.served)
    if size > LARGEST_SERVED:
        limit = f"{LARGEST_SERVED:,} bytes without documents"
        raise AskedError(f"the list has {size:,} bytes, and devices read at most {limit}: ask fewer queries")


def _sign(arguments: list[str]) -> int:
    parser = parser_of("asked sign", SIGN_HELP)
    parser.add_argument("list", type=Path, metavar="FILE", help="list to sign, such as asked/2.json")
    parser.add_argument("--key", required=True, type=Path, metavar="PEM", help="file of your private key")
    options = parser.parse_args(arguments)
    return run("asked sign", lambda: _add_signature(options))


def _add_signature(options: argparse.Namespace) -> None:
    # Only this step and `verify` need the package.
    from hubbub.asked.signatures import public_hex, read_private_key, sign

    signed_list = read_file(options.list)
    key = read_private_key(options.key)
    _write(options.list, sign(signed_list, key))
    sys.stdout.write(f"{options.list}: list {signed_list.number} has the signature of key {public_hex(key)}\n")


def _verify(arguments: list[str]) -> int:
    parser = parser_of("asked verify", VERIFY_HELP)
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the lists")
    parser.add_argument("--keys", required=True, metavar="HEX,...", help="public keys, in hexadecimal digits")
    parser.add_argument("--threshold", type=int, default=1, metavar="K", help="keys that must sign (default: 1)")
    options = parser.parse_args(arguments)
    return run("asked verify", lambda: _check(options))


def _check(options: argparse.Namespace) -> None:
    from hubbub.asked.trust import Trust

    lists = read_folder(options.folder)
    newest_list = lists[-1]
    trust = Trust(newest_list.application, tuple(options.keys.split(",")), options.threshold)
    trust.accept(None, [newest_list], time.time())
    count = f"signed by {len(trust.signers(newest_list))} of {len(trust.keys)} keys"
    sys.stdout.write(
        f"{options.folder}: {len(lists)} lists of {newest_list.application}; list {newest_list.number} is {count}, "
        f"asks {len(newest_list.queries)} queries and expires {utc(newest_list.expires)}; hash {newest_list.hash}\n"
    )


def _write(path: Path, signed_list: AskedList) -> None:
    try:
        replace_file(path, signed_list.file)
        # Everybody may read a list, and a gateway runs as another user.
        path.chmod(0o644)
    except OSError as error:
        raise AskedError(f"{path} cannot be written: {error.strerror}") from None
