"""Every error that this package raises on purpose.

HubbubError
├── ParameterError      an epsilon, size or option that cannot be had (also a ValueError)
├── ReportError         values, reports or tallies of the wrong type, shape or content (also a ValueError)
├── EntropyError        the system's entropy failed; nothing was perturbed (also a RuntimeError)
├── FrameError          bytes that are no frame, with the reason they are refused for (also a ValueError)
└── QueryError          a query file that cannot be used: file, key and valid range (also a ValueError)
"""


class HubbubError(Exception):
    """The root: catch this to catch all of them."""


class ParameterError(HubbubError, ValueError):
    """An epsilon, size or option that cannot be had."""


class ReportError(HubbubError, ValueError):
    """Values, reports or tallies of the wrong type, shape or content."""

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
