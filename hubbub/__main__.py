"""The command `hubbub`: one thin entry that joins the subcommands of the packages."""

import importlib
import os
import signal
import sys
from importlib.metadata import version

COMMANDS = {
    "demo": ("aggregator.demo.command", "everything at once on this machine, with a simulated crowd"),
    "worker": ("aggregator.worker", "count reports exactly and publish estimates"),
    "simulate": ("producers.simulation.simulate", "a simulated crowd that answers over Kafka, and the truth about it"),
    "replay": ("producers.simulation.replay", "send the values of a CSV file as clients would"),
    "board": ("aggregator.board.command", "a live page and an API of what is published"),
    "tail": ("aggregator.reading.tail.command", "estimates and alerts in the terminal, as they are published"),
    "plan": ("aggregator.plan.command", "how sure a query would be, and what it would cost"),
    "topics": ("aggregator.topics.command", "create the topics, and mend their settings"),
    "check": ("aggregator.plan.check", "validate a query file and say what each query promises and costs"),
}
"""Each module has main(arguments) -> exit code; it is imported only when it is asked for."""


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {purpose}" for name, (_, purpose) in COMMANDS.items()]
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
        print(f"hubbub {version('hubbub')}")
        return 0
    if command not in COMMANDS:
        print(f"hubbub: there is no command {command!r}\n\n{usage()}", file=sys.stderr)
        return 2
    module, _ = COMMANDS[command]
    return int(importlib.import_module(module).main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main())
