"""Options that have no effect with the others. They are refused, so that nobody relies on them."""

import argparse
from collections.abc import Collection, Sequence


def given(arguments: Sequence[str], names: Collection[str]) -> list[str]:
    """Return the options among the arguments that have one of these names. An environment variable is not among them.

    >>> given(["--top", "3", "--last=5", "x"], ["--last", "--top", "--json"])
    ['--top', '--last']
    """
    options = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    return [option for option in dict.fromkeys(options) if option in names]


def refuse_idle(parser: argparse.ArgumentParser, arguments: Sequence[str], names: Collection[str], reason: str) -> None:
    """End with a message if the arguments have an option of these names. `reason` says what makes it idle."""
    idle = given(arguments, names)
    if idle:
        verb = "has" if len(idle) == 1 else "have"
        parser.error(f"{' and '.join(idle)} {verb} no effect {reason}: leave {'it' if len(idle) == 1 else 'them'} out")
