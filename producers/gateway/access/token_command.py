"""`hubbub gateway token`: makes tokens, signing keys and short-lived tokens."""

import argparse
import os
import re
import secrets
import stat
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from hubbub.command.idle_options import refuse_idle
from hubbub.command.options import duration, parser_of, run, whole
from oracles.errors import ParameterError
from producers.gateway.access.tokens import UNLIMITED, short_lived

HELP = """\
Make a token, a key that signs short-lived tokens, or a short-lived token. The command prints the secret
once. It also prints the lines for the file of `hubbub gateway --tokens`.

example:
  $ hubbub gateway token --name app --quota 100000 >> tokens.toml  # prints the token on stderr
  $ umask 077  # new files are readable by you alone
  $ hubbub gateway token --name site --key --quota 100000 --each 5 > site.key  # prints the lines of the file on stderr
  $ hubbub gateway token --name site --sign site.key --for 15m
  hbs1.site.1700000900.8f14e45fceea167a5a36dedd4bea2543.ab56b4d92b40713acc5af89985d4b786...

Without a quota the holder of a token can decide every result. So a new token needs a number, or the word "unlimited".

A file of tokens that contains keys is as secret as the keys. If others can read the file to which the command
prints a secret, it warns.

Exit code: 0 success; 2 wrong options, or an unreadable key."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_KEY = re.compile("[0-9a-f]{64}")
_COUNT = whole(1)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    return run("gateway token", lambda: _make(options))


def _make(options: argparse.Namespace) -> None:
    if options.sign is not None:
        token = short_lived(options.name, _read(options.sign), int(time.time()) + options.valid)
        _write_secret(sys.stdout, f"{token}\n")
    elif options.key:
        key = secrets.token_bytes(32).hex()
        _write_secret(sys.stdout, f"{key}\n")
        lines = [f'keys = ["{key}"]', f"quota = {options.quota}", f"each = {options.each}"]
        _write_secret(sys.stderr, _table(options.name, lines))
    else:
        token = secrets.token_urlsafe(32)
        digest = sha256(token.encode()).hexdigest()
        _write_secret(sys.stderr, f"{token}\n")
        sys.stdout.write(_table(options.name, [f'sha256 = ["{digest}"]', f"quota = {options.quota}"]))


def _write_secret(stream: TextIO, text: str) -> None:
    """Write a secret. If the stream is a file that others can read, warn in a line that TOML takes as a comment."""
    stream.write(text)
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return  # a stream without a file
    if stat.S_ISREG(mode) and mode & 0o077:
        name = stream.name.strip("<>")
        fault = f"the file to which {name} goes holds a secret, and others can read it (mode {mode & 0o777:04o})"
        sys.stderr.write(f"# hubbub gateway token: {fault}. Run `chmod 600` on that file.\n")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("gateway token", HELP)
    parser.add_argument("--name", type=_name, required=True, metavar="NAME", help="name of the token or key")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--key", action="store_true", help="make a key that signs short-lived tokens")
    kind.add_argument("--sign", metavar="FILE", help="make a short-lived token with the signing key in this file")
    lifetime = "lifetime of a short-lived token (default: 15m)"
    parser.add_argument("--for", dest="valid", type=duration, default="15m", metavar="TIME", help=lifetime)
    quota = "limit of reports a pane, over all tokens of this name; required for a new token or key"
    parser.add_argument("--quota", type=_limit, metavar="N|unlimited", help=quota)
    each = "limit of reports a pane for each short-lived token; required with --key"
    parser.add_argument("--each", type=_limit, metavar="N|unlimited", help=each)

    options = parser.parse_args(arguments)
    if options.sign is None and options.quota is None:
        parser.error(_missing("--quota"))
    if options.key and options.each is None:
        parser.error(_missing("--each"))
    if options.each is not None and not options.key:
        parser.error("--each works only with --key")
    if options.sign is None:
        refuse_idle(parser, arguments, ("--for",), "without --sign")
    if options.sign is not None and options.quota is not None:
        parser.error("--quota works only for a new token or key, because the file of tokens has the quota")
    return options


def _missing(option: str) -> str:
    return f"set {option} N, the limit of reports a pane, or {option} {UNLIMITED}"


def _limit(text: str) -> str:
    """Parse a limit, and return it as TOML."""
    return f'"{UNLIMITED}"' if text == UNLIMITED else str(_COUNT(text))


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be 1 to 64 of the characters A-Z a-z 0-9 _ . -, got {text!r}")
    return text


def _table(name: str, lines: list[str]) -> str:
    return "\n".join([f"[tokens.{_toml_key(name)}]", *lines, ""])


def _toml_key(name: str) -> str:
    """Return a TOML key. A name with a dot needs quotes."""
    return f'"{name}"' if "." in name else name


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        text = Path(path).read_text().strip()
    except (OSError, ValueError) as error:
        raise ParameterError(f"{path} cannot be read: {error}") from None
    if not _KEY.fullmatch(text):
        raise ParameterError(f"{path} has no key: expected 64 hex digits, as --key prints them")
    return bytes.fromhex(text)
