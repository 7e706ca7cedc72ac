"""A secret from the environment variable NAME, or from the file that NAME_FILE names."""

import os
from collections.abc import Mapping
from pathlib import Path

from oracles.errors import ParameterError

MOST = 1 << 16
"""Maximum bytes of a file with a secret. A larger file must be a wrong path."""


def secret(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the secret, or None if neither variable is set. Raise ParameterError if both are set."""
    value = environment.get(name) or None
    path = environment.get(f"{name}_FILE") or None
    if value is not None and path is not None:
        raise ParameterError(f"{name} and {name}_FILE are both set: keep one of them")
    return value if path is None else read(f"{name}_FILE", path)


def read(name: str, path: str) -> str:
    """Return the only line of a file without its line end."""
    try:
        with Path(path).open("rb") as file:
            # One byte more shows that a file is too large, without reading all of a wrong one.
            content = file.read(MOST + 1)
        text = content.decode()
    except OSError as error:
        raise ParameterError(f"{name}: {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise ParameterError(f"{name}: {path} is not text in UTF-8") from None
    line = text.removesuffix("\n").removesuffix("\r")
    if not line or len(content) > MOST or not line.isprintable():
        raise ParameterError(f"{name}: {path} must contain exactly one line")
    return line
