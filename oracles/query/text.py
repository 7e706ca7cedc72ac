"""Text files of operators. Errors name the file."""

from pathlib import Path
from typing import Any

from oracles.query.settings import Place


def read_text(path: Path, place: Place, name: str = "") -> str:
    """Return a UTF-8 file, with or without a byte order mark. Errors call it `name`."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise place.error(f"{name}must be UTF-8 text, but its byte {error.start} is not") from error
    except OSError as error:
        raise place.error(f"{name}cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a path that no system takes
        raise place.error(f"{name}cannot be read: {error}") from error


def read_toml(path: Path, place: Place) -> dict[str, Any]:
    """Return the contents of a TOML file."""
    import tomllib

    text = read_text(path, place)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise place.error(f"must be TOML: {error}") from error
