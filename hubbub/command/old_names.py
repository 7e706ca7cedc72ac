"""Old names of options. They work for one version after the change, with a warning."""

import argparse
import sys
from typing import Any

LAST_VERSION = "0.4"
"""The version that drops the old names."""


def add_old_name(parser: argparse.ArgumentParser, old: str, option: argparse.Action) -> None:
    """Add the old name of an option with a value. The help does not show it."""
    parse: dict[str, Any] = {} if option.type is None else {"type": option.type}
    parser.add_argument(
        old,
        action=_OldName,
        new_name=option.option_strings[0],
        dest=option.dest,
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
        **parse,
    )


def warn(command: str, old: str, new: str) -> None:
    sys.stderr.write(f"{command}: {old} has the name {new} now. The old name ends with version {LAST_VERSION}.\n")


class _OldName(argparse.Action):
    """Stores the value like the new name, and warns."""

    def __init__(self, *, new_name: str, **more: Any) -> None:
        super().__init__(**more)
        self._new_name = new_name

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        warn(parser.prog, str(option_string), self._new_name)
        setattr(namespace, self.dest, values)
