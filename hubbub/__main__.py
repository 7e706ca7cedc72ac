"""The command `hubbub`, which runs the subcommands of the packages."""

import errno
import importlib
import os
import sys

from hubbub.command import early_sigterm

COMMANDS = {
    "demo": ("aggregator.demo.command", "all", "run everything on this machine, with a simulated crowd"),
    "worker": ("aggregator.worker.command", "worker", "count reports exactly and publish estimates"),
    "gateway": ("producers.gateway.command", "gateway", "accept reports over HTTP, from devices without Kafka"),
    "simulate": ("producers.simulation.simulate", "simulate", "simulate a crowd and publish its true counts"),
    "replay": ("producers.simulation.replay", "simulate", "send the values of a CSV file as clients would"),
    "board": ("aggregator.board.command", "board", "serve a live page and an API of published estimates"),
    "tail": ("aggregator.reading.tail.command", "board", "show estimates and alerts in the terminal"),
    "export": ("aggregator.reading.export.command", "stats", "write published estimates as CSV, JSON lines or Parquet"),
    "sink": ("aggregator.sink.command", "sink", "write published estimates to files that never change"),
    "metrics": ("aggregator.reading.metrics", "worker", "show the metrics of a running process in words"),
    "rejects": ("aggregator.reading.rejects", "kafka", "show refused frames and their reasons"),
    "init": ("aggregator.plan.init", "stats", "ask five questions and write a query file"),
    "plan": ("aggregator.plan.command", "stats", "compute the accuracy and the cost of a query"),
    "probe": ("aggregator.plan.probe", "stats", "bound the epsilon of any client, from its reports alone"),
    "pin": ("producers.pin_command", "", "print the limits of a query for an application to pin"),
    "asked": ("producers.asked_command", "signed", "list what is asked, for people to sign and devices to check"),
    "publish": ("aggregator.reading.publish.command", "", "write a public page of everything that was ever asked"),
    "topics": ("aggregator.topics.command", "kafka", "create the topics and correct their settings"),
    "stop": ("aggregator.topics.stop", "kafka", "stop queries at once, until they are resumed"),
    "resume": ("aggregator.topics.resume", "kafka", "let stopped queries go on"),
    "doctor": ("aggregator.reading.doctor", "kafka", "say what an upgrade would change, and the way back"),
    "audit": (
        "aggregator.reading.audit.command",
        "worker",
        "count the log again and compare with the published records",
    ),
    "check": (
        "aggregator.plan.check",
        "stats",
        "validate a query file and print the promises and costs of its queries",
    ),
}
"""The module of each command, the extra with its dependencies, and its purpose.

A module has main(arguments) -> exit code, and is imported only if its command runs.
"""

_KAFKA = ("orjson", "aiokafka", "cramjam")
_STATS = (*_KAFKA, "scipy")
PACKAGES = {
    "kafka": _KAFKA,
    "stats": _STATS,
    "worker": (*_STATS, "faust", "aiohttp", "prometheus_client"),
    "gateway": (*_KAFKA, "aiohttp", "prometheus_client"),
    "board": (*_STATS, "aiohttp", "rich", "prometheus_client"),
    "simulate": (*_KAFKA, "aiohttp", "prometheus_client"),
    "signed": ("cryptography",),
    "sink": (*_STATS, "polars", "obstore", "aiohttp", "prometheus_client"),
}
"""The packages that the commands of an extra cannot do without."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The errors of a file that takes no more bytes."""


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {purpose}" for name, (_, _, purpose) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: hubbub COMMAND [options]",
            "",
            "Hear the crowd, never a person: live statistics under local differential privacy.",
            "",
            *lines,
            "",
            "hubbub COMMAND --help lists the options, with an example.",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    early_sigterm.exit_at_once()
    try:
        try:
            return run(sys.argv[1:] if arguments is None else arguments)
        finally:
            # At the interpreter's own exit a broken pipe could no longer be caught.
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # the reader of the pipe has ended, so drop the rest
        _drop_output()
        return 0
    except OSError as error:
        if error.errno not in FULL or not _output_fails():
            raise
        _drop_output()
        sys.stderr.write(
            f"hubbub: the output cannot be written: {error.strerror}. Free some space, or write elsewhere\n"
        )
        return 1


def _output_fails() -> bool:
    """Whether nothing can be written to the output. If another file has the error, an empty line is written."""
    try:
        # An output without a buffer has nothing to flush, so only a write tells.
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        return True
    return False


def _drop_output() -> None:
    """Send the rest of the output nowhere. Otherwise the interpreter writes it again at its end, and fails there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _near_command(word: str) -> str:
    """Return a question with the command that was probably meant, or an empty text."""
    import difflib  # only this error needs it

    matches = difflib.get_close_matches(word, COMMANDS, 1)
    return f"; did you mean {matches[0]}?" if matches else ""


def run(arguments: list[str]) -> int:
    # These load NumPy, most of the time of a start. Before `main`, SIGTERM would end the process with -15.
    from importlib.metadata import version
    from importlib.util import find_spec

    from oracles.errors import MissingExtra, extra
    from oracles.kernels import c_library

    if arguments[:1] == ["help"] and arguments[1:]:
        arguments = [arguments[1], "--help"]
    command = arguments[0] if arguments else "--help"
    if command in ("-h", "--help", "help"):
        print(usage())
        return 0
    if command == "--version" or (command in COMMANDS and arguments[1:] == ["--version"]):
        reason = c_library.reason()
        print(f"hubbub {version('hubbub')}, kernels: {c_library.name()}{f' ({reason})' if reason else ''}")
        return 0
    if command not in COMMANDS:
        print(f"hubbub: there is no command {command!r}{_near_command(command)}\n\n{usage()}", file=sys.stderr)
        return 2
    module, extra_name, _ = COMMANDS[command]
    try:
        # Some packages are imported late, which would name a missing one in the middle of the output.
        with extra(extra_name):
            for package in PACKAGES.get(extra_name, ()):
                if package not in sys.modules and find_spec(package) is None:
                    raise ModuleNotFoundError(name=package)
            main = importlib.import_module(module).main
    except MissingExtra as error:
        print(f"hubbub {command}: {error}", file=sys.stderr)
        return error.exit_code
    early_sigterm.interrupt()
    return int(main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main())
