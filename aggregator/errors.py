"""The errors of the daemon, beside those of `hubbub.errors`; each class says with which code a command ends.

HubbubError
├── TopicsError        4   topics on which the guarantees cannot be kept
├── Guarantee          4   a guarantee cannot be kept while running (also a RuntimeError)
├── EmbeddedError      1   the embedded broker is not installed, or does not start (also a RuntimeError)
├── EstimatorEnded     1   the process that makes records ended again and again (also a RuntimeError)
└── ChildEnded         its   a command that a demo started ended for good (also a RuntimeError)
"""

from oracles.errors import HubbubError


class TopicsError(HubbubError):
    """Topics on which the guarantees cannot be kept, or that a broker refuses to make so; a line each."""

    exit_code = 4


class Guarantee(HubbubError, RuntimeError):
    """A guarantee cannot be kept; the message says what to do."""

    exit_code = 4


class EmbeddedError(HubbubError, RuntimeError):
    """The embedded broker is not installed, or does not start."""


class EstimatorEnded(HubbubError, RuntimeError):
    """The process that makes records ended again and again."""

    def __init__(self, query: str, tries: int) -> None:
        super().__init__(
            f"the process that makes records ended {tries} times over one of {query}: the worker ends, and the next "
            "one goes on from its last state; if memory was short, hubbub check says how much a worker takes"
        )


class ChildEnded(HubbubError, RuntimeError):
    """A command ended for good; the message has its last words."""

    def __init__(self, name: str, code: int, said: str) -> None:
        super().__init__(f"the {name} ended with {code}: {said}")
        self.exit_code = code if 0 < code < 5 else 1
