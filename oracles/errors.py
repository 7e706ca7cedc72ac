"""Every error that this package raises on purpose, with the exit code of a command that it ends.

HubbubError             1
├── ParameterError      2   an invalid epsilon, size or option (also a ValueError)
├── ReportError         2   values, reports or tallies of the wrong type, shape or content (also a ValueError)
├── EntropyError        1   the system's entropy failed, so no value was perturbed (also a RuntimeError)
├── FrameError          1   bytes that are no valid frame, with a reason (also a ValueError)
├── QueryError          2   an invalid query file: file, key and valid range (also a ValueError)
├── MissingExtra        2   a package that is not installed, and the extra that contains it (also an ImportError)
└── ConformanceError    1   an oracle or a method that breaks a promise, and which (also an AssertionError)
"""

from collections.abc import Iterator
from contextlib import contextmanager


class HubbubError(Exception):
    """The root of all errors: catch this to catch all of them."""

    exit_code = 1


class ParameterError(HubbubError, ValueError):
    """An invalid epsilon, size or option."""

    exit_code = 2


class ReportError(HubbubError, ValueError):
    """Values, reports or tallies of the wrong type, shape or content."""

    exit_code = 2

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index
        """Index of the first malformed report, or None."""


class EntropyError(HubbubError, RuntimeError):
    """The operating system gave no entropy, so no value was perturbed."""


class FrameError(HubbubError, ValueError):
    """Bytes that are no valid frame. Metrics count them by ``reason``: malformed or too_large."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class QueryError(HubbubError, ValueError):
    """An invalid query file. The message names file, key and valid range."""

    exit_code = 2


class ConformanceError(HubbubError, AssertionError):
    """An oracle or a method that breaks a promise. The message names the promise."""


class MissingExtra(HubbubError, ImportError):
    """A package that is not installed. The message names the extra that contains it."""

    exit_code = 2


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Guard imports of an extra of hubbub: raise MissingExtra with its name if a package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("oracles", "hubbub", "producers", "aggregator"):
            raise  # our own packages need no extra
        raise MissingExtra(f"package {package} is not installed; run: pip install 'hubbub[{name}]'") from error
