"""Every error that this package raises on purpose; each class says with which exit code a command ends.

HubbubError             1
├── ParameterError      2   an epsilon, size or option that cannot be had (also a ValueError)
├── ReportError         2   values, reports or tallies of the wrong type, shape or content (also a ValueError)
├── EntropyError        1   the system's entropy failed; nothing was perturbed (also a RuntimeError)
├── FrameError          1   bytes that are no frame, with the reason they are refused for (also a ValueError)
├── QueryError          2   a query file that cannot be used: file, key and valid range (also a ValueError)
├── MissingExtra        2   a package that is not installed, and the extra that brings it (also an ImportError)
└── ConformanceError    1   an oracle or a method that breaks a promise, and which (also an AssertionError)
"""

from collections.abc import Iterator
from contextlib import contextmanager


class HubbubError(Exception):
    """The root: catch this to catch all of them."""

    exit_code = 1


class ParameterError(HubbubError, ValueError):
    """An epsilon, size or option that cannot be had."""

    exit_code = 2


class ReportError(HubbubError, ValueError):
    """Values, reports or tallies of the wrong type, shape or content."""

    exit_code = 2

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index
        """The first malformed report, where there is one."""


class EntropyError(HubbubError, RuntimeError):
    """The operating system gave no entropy; nothing was perturbed."""


class FrameError(HubbubError, ValueError):
    """Bytes that are no frame. ``reason`` is the word counted in metrics: malformed or too_large."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class QueryError(HubbubError, ValueError):
    """A query file that cannot be used; the message names file, key and valid range."""

    exit_code = 2


class ConformanceError(HubbubError, AssertionError):
    """An oracle or a method that breaks a promise; the message says which."""


class MissingExtra(HubbubError, ImportError):
    """A package that is not installed; the message says which extra brings it."""

    exit_code = 2


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around imports that only this extra of hubbub brings: what is missing is a MissingExtra that names it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("oracles", "hubbub", "producers", "aggregator"):
            raise  # ours is never missing for want of an extra
        raise MissingExtra(f"this needs {package}, which is not installed: pip install 'hubbub[{name}]'") from error
