"""Options of commands: parsers of their values, the options that several commands share, and the exit codes."""

import argparse
import math
import os
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import IO, Any, NoReturn, TypeVar

from hubbub.kafka.rights import access_refusal, hint
from hubbub.kafka.settings import PREFIX, SECURITY, SERVERS, parse_prefix, parse_servers
from hubbub.moments import unix_seconds
from oracles.errors import HubbubError, ParameterError
from oracles.frame import MAX_FRAME
from oracles.query import Query, load
from oracles.query.settings import seconds

MIB = 1 << 20
LARGEST_FRAME = 64 * MIB
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FLAGS = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
# Two digits of exponent, because a whole number such as 1e999999999 would fill the memory.
_WHOLE = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?(e[0-9]{1,2})?")
_FREE_PORT = "0: any free port, which is printed"
_Read = TypeVar("_Read")
_UNKNOWN = re.compile(r"unrecognized arguments: (--[a-z-]+)")
"""The start of argparse's message about an option that a command does not have."""
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([KMGTP]iB|B)?")


def whole(least: int = 0, most: int = 10**18 - 1) -> Callable[[str], int]:
    """Return a parser of whole numbers, also in the form 1e6."""
    limit = f"of at least {least:,}" if most == 10**18 - 1 else f"from {least:,} to {most:,}"

    def read(text: str) -> int:
        number = Decimal(text) if _WHOLE.fullmatch(text) else Decimal(-1)
        if number != int(number) or not least <= number <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number {limit}, got {text!r}")
        return int(number)

    return read


def whole_or_max(least: int, most: int) -> Callable[[str], float]:
    """Return a parser of whole numbers. "max" means infinity."""
    read = whole(least, most)
    return lambda text: math.inf if text == "max" else read(text)


def share(text: str) -> float:
    number = float(text) if re.fullmatch(r"[0-9]*\.?[0-9]+(e-?[0-9]{1,2})?", text) else 0.0
    if not 0.0 < number < 1.0:
        raise argparse.ArgumentTypeError(f"must be a share above 0 and below 1, got {text!r}")
    return number


def amount(text: str) -> float:
    """Parse an epsilon, or a budget of several: a number above 0."""
    number = float(text) if re.fullmatch(r"[0-9]*\.?[0-9]+(e-?[0-9]{1,2})?", text) else 0.0
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return number


def rate(text: str) -> float:
    """Parse a number per second. "max" means infinity."""
    if text == "max":
        return math.inf
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f'must be a number above 0, or "max", got {text!r}')
    return float(text)


def size(text: str) -> int:
    """Parse a size such as "4GiB", "512MiB", "1.5KiB" or "4096" into bytes."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a size such as 4GiB, 512MiB or 4096 (bytes), got {text!r}")
    return int(Decimal(match[1]) * 1024 ** _UNITS.index(match[2] or "B"))


def in_bytes(count: float) -> str:
    """Format bytes for people: 544 B, 57.4 KiB."""
    step = min(max(int(count).bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count:,.0f} B" if step == 0 else f"{count / 1024**step:,.1f} {_UNITS[step]}"


def size_text(count: int) -> str:
    """Return a size as `size` reads it.

    >>> size_text(32 << 20), size_text(1536), size(size_text(1536))
    ('32MiB', '1536B', 1536)
    """
    step = next(step for step in reversed(range(len(_UNITS))) if count % 1024**step == 0)
    return f"{count // 1024**step}{_UNITS[step]}"


def duration_text(length: int) -> str:
    """Return seconds as `duration` reads them. A single day is 24h.

    >>> duration_text(86_400), duration_text(7 * 86_400), duration_text(90)
    ('24h', '7d', '90s')
    """
    for unit, letter in ((86_400, "d"), (3600, "h"), (60, "m")):
        if length > unit and length % unit == 0:
            return f"{length // unit}{letter}"
    return f"{length}s"


def duration(text: str) -> int:
    """Parse a duration such as "30m", "6h" or "7d" into seconds."""
    length = seconds(text)
    if not length:
        raise argparse.ArgumentTypeError(f"must be a duration such as 30m, 6h or 7d, got {text!r}")
    return length


def port(text: str) -> int:
    # `int` alone would also take signs, blanks, underscores and the digits of other scripts.
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 65535, got {text!r}")
    return int(text)


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser that accepts these words. Unlike `choices` of argparse it also checks environment variables."""

    def read(text: str) -> str:
        if text not in words:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(words)}, got {text!r}")
        return text

    return read


def parsed(parse: Callable[[str], _Read]) -> Callable[[str], _Read]:
    """Return a parser for argparse from a function that raises errors of hubbub."""

    def read(text: str) -> _Read:
        try:
            return parse(text)
        except HubbubError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


moment = parsed(unix_seconds)
"""Parses a date, a time or Unix seconds."""


class Parser(argparse.ArgumentParser):
    """A parser of a command's options. Its error about an unknown option names the one that was probably meant."""

    def error(self, message: str) -> NoReturn:
        unknown = _UNKNOWN.match(message)
        if unknown:
            import difflib  # only errors need it

            matches = difflib.get_close_matches(unknown[1], self._option_string_actions, 1)
            message += f"; did you mean {matches[0]}?" if matches else ""
        super().error(message)

    def _print_message(self, message: str, file: IO[str] | None = None) -> None:  # type: ignore[override]
        # argparse itself hides the error of a full disk, and the command would end with 0.
        output = file or sys.stderr
        if message and output is not None:
            output.write(message)


def parser_of(command: str, description: str) -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    return Parser(prog=f"hubbub {command}", description=description, formatter_class=raw)


def add_option(
    parser: argparse.ArgumentParser,
    variable: str,
    name: str,
    meaning: str,
    *,
    default: str | None = None,
    note: str = "",
    may_be_file: bool = False,
    **more: Any,
) -> None:
    """Add an option with its environment variable. An empty variable counts as unset.

    The help ends with the variable, the default and the note. `default` and the variable are parsed like an option.
    `may_be_file` allows the name of the variable to end in _FILE, as names of mounted secrets do.
    """
    variables = (variable, f"{variable}_FILE") if may_be_file else (variable,)
    values = {key: os.environ[key] for key in variables if os.environ.get(key)}
    if len(values) > 1:
        parser.error(f"{' and '.join(values)} are both set: remove one")

    notes = [variable]
    if default:
        notes.append(f"default: {default}")
    if note:
        notes.append(note)
    value = next(iter(values.values()), default)
    parser.add_argument(name, default=value, help=f"{meaning} ({'; '.join(notes)})", **more)


def add_flag(parser: argparse.ArgumentParser, variable: str, name: str, meaning: str) -> None:
    """Add an option without a value, and its environment variable, which is 1 or 0."""
    text = os.environ.get(variable, "").lower()
    if text not in _FLAGS:
        parser.error(f"{variable} must be 1 or 0, got {text!r}")
    parser.add_argument(name, action="store_true", default=_FLAGS[text], help=f"{meaning} ({variable}=1)")


def add_kafka(parser: argparse.ArgumentParser, *, embedded: bool = False) -> None:
    """Add the options of Kafka's address. `embedded` adds the option for the kind of broker."""
    address_type = parsed(parse_servers)
    add_option(
        parser, "HUBBUB_KAFKA", "--kafka", "brokers of Kafka", default=SERVERS, type=address_type, metavar="HOST:PORT"
    )

    # An empty prefix is a choice, unlike an empty address.
    prefix = os.environ.get("HUBBUB_PREFIX", PREFIX)
    naming = f"prefix of the names of topics and of the consumer group (HUBBUB_PREFIX; default: {PREFIX})"
    parser.add_argument("--prefix", type=parsed(parse_prefix), default=prefix, metavar="P", help=naming)

    if embedded:
        add_flag(parser, "HUBBUB_EMBEDDED", "--embedded", "use the embedded broker, Tansu")


def add_queries(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "HUBBUB_QUERIES", "--queries", "query file", default="hubbub.toml", metavar="FILE")


def add_address(parser: argparse.ArgumentParser, default: int, of: str) -> None:
    """Add the options of the address on which a command serves HTTP."""
    # Other machines reach a server only if the operator says so.
    add_option(parser, "HUBBUB_HOST", "--host", f"host of {of}", default="127.0.0.1", metavar="H")
    add_option(
        parser,
        "HUBBUB_PORT",
        "--port",
        f"port of {of}",
        default=str(default),
        note=_FREE_PORT,
        type=port,
        metavar="N",
    )


def add_health_port(parser: argparse.ArgumentParser) -> None:
    """Add the option that takes health and metrics from the port of strangers."""
    meaning = "port of /healthz, /readyz and /metrics, in plain HTTP; without it --port serves them"
    add_option(parser, "HUBBUB_HEALTH_PORT", "--health-port", meaning, note=_FREE_PORT, type=port, metavar="N")


def add_max_frame(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "HUBBUB_MAX_FRAME",
        "--max-frame",
        "maximum size of a frame",
        default=size_text(MAX_FRAME),
        type=frame_size,
        metavar="SIZE",
    )


def frame_size(text: str) -> int:
    """Parse the size of the largest frame into bytes."""
    if not _SIZE.fullmatch(text) or not 0 < size(text) <= LARGEST_FRAME:
        most = f"must be a size above 0 and at most {LARGEST_FRAME // MIB}MiB"
        raise argparse.ArgumentTypeError(f"{most} (HUBBUB_MAX_FRAME), got {text!r}")
    return size(text)


def selected_query(options: argparse.Namespace) -> Query:
    """Return the query of `--query`, or the only query of the file."""
    queries = load(options.queries)

    if options.query is None and len(queries) == 1:
        return next(iter(queries.values()))
    if options.query not in queries:
        fault = "--query must name one" if options.query is None else f"there is no query {options.query!r}"
        raise ParameterError(f"{options.queries}: {fault}: {', '.join(queries)}")
    return queries[options.query]


def run(command: str, work: Callable[[], int | None]) -> int:
    """Run a command and return its exit code. Print an error of hubbub or Kafka, with a line for each reason."""
    try:
        return work() or 0
    except Exception as error:
        failed = failure(command, error)
        # An unknown error is a fault of hubbub, and its traceback is needed.
        if failed is None:
            raise

    code, text = failed
    sys.stderr.write("".join(f"hubbub {command}: {line}\n" for line in text.splitlines()))
    return code


def failure(command: str, error: BaseException) -> tuple[int, str] | None:
    """Return the exit code and the text of an error of hubbub or Kafka, or None for any other error."""
    reason = _first_error(error)
    reason = access_refusal(command, reason) or reason
    if isinstance(reason, HubbubError):
        # Without a login there are no access lists, so a topic that seems missing is missing.
        return reason.exit_code, f"{reason}\n{hint(command, reason) if os.environ.get(SECURITY) else ''}"
    if isinstance(reason, (TimeoutError, *_kafka_errors(*_SILENT))):
        return 3, f"Kafka does not answer: {reason!r}"
    if isinstance(reason, _kafka_errors("KafkaError")):
        return 1, f"Kafka refused: {reason}"
    return None


def _first_error(error: BaseException) -> BaseException:
    """Return the first error of a group."""
    # A task group wraps the error of its task, and only that error has an exit code.
    match error:
        case BaseExceptionGroup(exceptions=(nested_error, *_)):
            return _first_error(nested_error)
    return error


_SILENT = ("KafkaTimeoutError", "KafkaConnectionError", "RequestTimedOutError", "NodeNotReadyError")


def _kafka_errors(*names: str) -> tuple[type[Exception], ...]:
    """Return these error classes of aiokafka, or none if it was never imported."""
    errors = sys.modules.get("aiokafka.errors")
    return tuple(getattr(errors, name) for name in names) if errors else ()
