"""The options of the commands: readers that say what would do, those that several share, and how a command ends."""

import argparse
import math
import os
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

from hubbub.kafka import PREFIX, SECURITY, SERVERS, parse_prefix, parse_servers
from hubbub.rights import explained, hint
from oracles.errors import HubbubError, ParameterError
from oracles.frame import MAX_FRAME
from oracles.query import Query, load
from oracles.query.settings import seconds

MIB = 1 << 20
LARGEST_FRAME = 64 * MIB
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FLAGS = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
_WHOLE = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?(e[0-9]{1,2})?")
_Read = TypeVar("_Read")
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([KMGTP]iB|B)?")


def whole(least: int = 0, most: int = 10**18 - 1) -> Callable[[str], int]:
    """Reads a whole number, also as 1e6."""
    limit = f"of at least {least:,}" if most == 10**18 - 1 else f"from {least:,} to {most:,}"

    def read(text: str) -> int:
        number = Decimal(text) if _WHOLE.fullmatch(text) else Decimal(-1)
        if number != int(number) or not least <= number <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number {limit}, got {text!r}")
        return int(number)

    return read


def share(text: str) -> float:
    number = float(text) if re.fullmatch(r"[0-9]*\.?[0-9]+(e-?[0-9]{1,2})?", text) else 0.0
    if not 0.0 < number < 1.0:
        raise argparse.ArgumentTypeError(f"must be a share above 0 and below 1, got {text!r}")
    return number


def rate(text: str) -> float:
    """So many a second; infinity for "max"."""
    if text == "max":
        return math.inf
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f'must be a number above 0, or "max", got {text!r}')
    return float(text)


def size(text: str) -> int:
    """Bytes of "4GiB", "512MiB", "1.5KiB" or "4096"."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a size such as 4GiB, 512MiB or 4096 (bytes), got {text!r}")
    return int(Decimal(match[1]) * 1024 ** _UNITS.index(match[2] or "B"))


def in_bytes(count: float) -> str:
    """Bytes for people: 544 B, 57.4 KiB."""
    step = min(max(int(count).bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count:,.0f} B" if step == 0 else f"{count / 1024**step:,.1f} {_UNITS[step]}"


def duration(text: str) -> int:
    """Seconds of "30m", "6h" or "7d"."""
    length = seconds(text)
    if not length:
        raise argparse.ArgumentTypeError(f"must be a duration such as 30m, 6h or 7d, got {text!r}")
    return length


def port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 65535, got {text!r}")
    return int(text)


def one_of(*words: str) -> Callable[[str], str]:
    """Of the environment too: argparse compares only arguments with its choices."""

    def read(text: str) -> str:
        if text not in words:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(words)}, got {text!r}")
        return text

    return read


def parsed(parse: Callable[[str], _Read]) -> Callable[[str], _Read]:
    """Reads with a function that raises errors of ours."""

    def read(text: str) -> _Read:
        try:
            return parse(text)
        except HubbubError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def parser_of(command: str, description: str) -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=f"hubbub {command}", description=description, formatter_class=raw)


def add_kafka(parser: argparse.ArgumentParser, *, embedded: bool = False) -> None:
    """Where Kafka is, for every command that speaks it; `embedded` for those that have to know the broker."""
    servers, prefix = os.environ.get("HUBBUB_KAFKA") or SERVERS, os.environ.get("HUBBUB_PREFIX", PREFIX)
    where = f"Kafka's brokers (HUBBUB_KAFKA; default: {SERVERS})"
    parser.add_argument("--kafka", type=parsed(parse_servers), default=servers, metavar="HOST:PORT", help=where)
    starts = f"starts the names of topics and of the consumer group (HUBBUB_PREFIX; default: {PREFIX})"
    parser.add_argument("--prefix", type=parsed(parse_prefix), default=prefix, metavar="P", help=starts)
    if embedded:
        tansu = "the broker is the embedded one, Tansu (HUBBUB_EMBEDDED=1)"
        said = os.environ.get("HUBBUB_EMBEDDED", "").lower()
        if said not in _FLAGS:
            parser.error(f"HUBBUB_EMBEDDED must be 1 or 0, got {said!r}")
        parser.add_argument("--embedded", action="store_true", default=_FLAGS[said], help=tansu)


def add_queries(parser: argparse.ArgumentParser) -> None:
    named = os.environ.get("HUBBUB_QUERIES") or "hubbub.toml"
    what = "the query file (HUBBUB_QUERIES; default: hubbub.toml)"
    parser.add_argument("--queries", default=named, metavar="FILE", help=what)


def add_address(parser: argparse.ArgumentParser, default: int, of: str) -> None:
    """Where a command listens for HTTP."""
    host, number = os.environ.get("HUBBUB_HOST") or "127.0.0.1", os.environ.get("HUBBUB_PORT") or str(default)
    parser.add_argument("--host", default=host, metavar="H", help=f"of {of} (HUBBUB_HOST; default: 127.0.0.1)")
    at = f"of {of} (HUBBUB_PORT; default: {default}; 0: any free one, printed)"
    parser.add_argument("--port", type=port, default=number, metavar="N", help=at)


def add_max_frame(parser: argparse.ArgumentParser) -> None:
    largest = os.environ.get("HUBBUB_MAX_FRAME") or str(MAX_FRAME)
    most = "larger frames are refused (HUBBUB_MAX_FRAME; default: 1MiB)"
    parser.add_argument("--max-frame", type=frame_size, default=largest, metavar="SIZE", help=most)


def frame_size(text: str) -> int:
    """Bytes of the largest frame."""
    if not _SIZE.fullmatch(text) or not 0 < size(text) <= LARGEST_FRAME:
        most = f"must be a size above 0 and at most {LARGEST_FRAME // MIB}MiB"
        raise argparse.ArgumentTypeError(f"{most} (HUBBUB_MAX_FRAME), got {text!r}")
    return size(text)


def chosen(options: argparse.Namespace) -> Query:
    """The query that `--query` names, or the only one of the file."""
    queries = load(options.queries)
    if options.query is None and len(queries) == 1:
        return next(iter(queries.values()))
    if options.query not in queries:
        said = "--query must say which" if options.query is None else f"there is no query {options.query!r}"
        raise ParameterError(f"{options.queries}: {said}: {', '.join(queries)}")
    return queries[options.query]


def run(command: str, work: Callable[[], int | None]) -> int:
    """The exit code of a command: what its work gives, or what an error of ours says, with a line for each reason."""
    try:
        return work() or 0
    except Exception as error:
        reason = _first_error(error)
        reason = explained(command, reason) or reason
        if isinstance(reason, HubbubError):
            code, said = reason.exit_code, f"{reason}\n{hint(command, reason) if os.environ.get(SECURITY) else ''}"
        elif isinstance(reason, (TimeoutError, *_kafka_errors(*_SILENT))):
            code, said = 3, f"Kafka does not answer: {reason!r}"
        elif isinstance(reason, _kafka_errors("KafkaError")):
            code, said = 1, f"Kafka refused: {reason}"
        else:
            raise
    sys.stderr.write("".join(f"hubbub {command}: {line}\n" for line in said.splitlines()))
    return code


def _first_error(error: BaseException) -> BaseException:
    """The first of a group's errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


_SILENT = ("KafkaTimeoutError", "KafkaConnectionError", "RequestTimedOutError", "NodeNotReadyError")


def _kafka_errors(*names: str) -> tuple[type[Exception], ...]:
    """Errors of Kafka's client; none where it was never imported."""
    errors = sys.modules.get("aiokafka.errors")
    return tuple(getattr(errors, name) for name in names) if errors else ()
