"""A secret, which the environment holds by itself or as the path of a file: NAME, or NAME_FILE."""

import os
from collections.abc import Mapping
from pathlib import Path

from oracles.errors import ParameterError

MOST = 1 << 16
"""Bytes that a file of a secret may have; another file was meant above that."""


def secret(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The secret in `name`, or in the file that `name`_FILE names; None where neither is set; both are an error."""
    said, path = environment.get(name) or None, environment.get(f"{name}_FILE") or None
    if said is not None and path is not None:
        raise ParameterError(f"{name} and {name}_FILE are both set: keep one of them")
    return said if path is None else read(f"{name}_FILE", path)


def read(name: str, path: str) -> str:
    """The one line of a file; its line end does not belong to it."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST + 1)
        text = content.decode()
    except OSError as error:
        raise ParameterError(f"{name}: {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise ParameterError(f"{name}: {path} is no text") from None
    line = text.removesuffix("\n").removesuffix("\r")
    if not line or len(content) > MOST or not line.isprintable():
        raise ParameterError(f"{name}: {path} must hold one line, and nothing else")
    return line
