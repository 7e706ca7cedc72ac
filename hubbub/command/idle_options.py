"""Options that have no effect with the others. They are refused, so that nobody relies on them."""

import argparse
from collections.abc import Collection, Sequence


def given(parser: argparse.ArgumentParser, arguments: Sequence[str], names: Collection[str]) -> list[str]:
    """Return the options among parsed arguments that have one of these names, abbreviated or not.

    An environment variable is not among them: it is there for all commands.

    >>> parser = argparse.ArgumentParser()
    >>> for name in ("--top", "--last", "--to"):
    ...     _ = parser.add_argument(name)
    >>> given(parser, ["--to", "3", "--la=5"], ["--last", "--top"])
    ['--last']
    """
    known = parser._option_string_actions  # noqa: SLF001 - argparse names its options nowhere else
    texts = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    options = dict.fromkeys(_full_name(text, known) for text in texts)
    return [option for option in options if option in names]


def _full_name(text: str, known: Collection[str]) -> str:
    """Return the option of this text. argparse also takes the start of a name if no other name begins so."""
    if text in known:
        return text
    return next((name for name in known if name.startswith(text)), text)


def refuse_idle(parser: argparse.ArgumentParser, arguments: Sequence[str], names: Collection[str], reason: str) -> None:
    """End with a message if the arguments have an option of these names. `reason` says what makes it idle."""
    idle = given(parser, arguments, names)
    if idle:
        verb = "has" if len(idle) == 1 else "have"
        parser.error(f"{' and '.join(idle)} {verb} no effect {reason}: leave {'it' if len(idle) == 1 else 'them'} out")
