"""The command `hubbub`: one thin entry that joins the subcommands of the packages."""

import importlib
import os
import signal
import sys
from importlib.metadata import version

from oracles.errors import MissingExtra, extra
from oracles.kernels import compiled

COMMANDS = {
    "demo": ("aggregator.demo.command", "all", "everything at once on this machine, with a simulated crowd"),
    "worker": ("aggregator.worker", "worker", "count reports exactly and publish estimates"),
    "gateway": ("producers.gateway.command", "gateway", "take reports over HTTP, from devices that do not speak Kafka"),
    "simulate": ("producers.simulation.simulate", "simulate", "a simulated crowd, and the truth about it"),
    "replay": ("producers.simulation.replay", "simulate", "send the values of a CSV file as clients would"),
    "board": ("aggregator.board.command", "board", "a live page and an API of what is published"),
    "tail": ("aggregator.reading.tail.command", "board", "estimates and alerts in the terminal, as they are published"),
    "export": ("aggregator.reading.export.command", "kafka", "published estimates as CSV, JSON lines or Parquet"),
    "plan": ("aggregator.plan.command", "stats", "how sure a query would be, what it costs, what a rate takes"),
    "topics": ("aggregator.topics.command", "kafka", "create the topics, and mend their settings"),
    "audit": ("aggregator.reading.audit.command", "worker", "fold the log again and compare with what was published"),
    "check": ("aggregator.plan.check", "stats", "validate a query file and say what each query promises and costs"),
}
"""Of each command its module, the extra that brings what it needs, and its purpose.

A module has main(arguments) -> exit code; it is imported only when it is asked for.
"""


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
            "hubbub COMMAND --help says more, with an example.",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends everything as Ctrl-C does
    try:
        try:
            return run(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # who read has seen enough; what is left goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def run(arguments: list[str]) -> int:
    command = arguments[0] if arguments else "--help"
    if command in ("-h", "--help", "help"):
        print(usage())
        return 0
    if command == "--version" or (command in COMMANDS and arguments[1:] == ["--version"]):
        print(f"hubbub {version('hubbub')}, kernels: {compiled.name()}")
        return 0
    if command not in COMMANDS:
        print(f"hubbub: there is no command {command!r}\n\n{usage()}", file=sys.stderr)
        return 2
    module, needed, _ = COMMANDS[command]
    try:
        with extra(needed):
            main = importlib.import_module(module).main
    except MissingExtra as error:
        print(f"hubbub {command}: {error}", file=sys.stderr)
        return error.exit_code
    return int(main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main())
