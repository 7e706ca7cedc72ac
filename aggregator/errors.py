"""The errors of the daemon, in addition to those of `hubbub.kafka.errors`, with their exit codes.

HubbubError
├── TopicsError        4   topics that do not allow the guarantees
├── Guarantee          4   a guarantee cannot be kept while running (also a RuntimeError)
├── Fenced             4   another process has the name of this worker (also a RuntimeError)
├── ClassicGroupsRefused 4 the brokers offer only the newer group protocol (also a RuntimeError)
├── TargetRefused      4   the target of a sink belongs to another sink, or to other settings
├── TargetUnreachable  3   the target of a sink does not work for a long time
├── EmbeddedError      1   the embedded broker is not installed or does not start (also a RuntimeError)
├── EstimatorEnded     1   the estimator process ended again and again (also a RuntimeError)
└── ChildEnded         its   a command of a demo has ended (also a RuntimeError)
"""

from oracles.errors import HubbubError


class TopicsError(HubbubError):
    """Topics do not allow the guarantees, or a broker refuses to change them. The message has a line for each fault."""

    exit_code = 4


class Guarantee(HubbubError, RuntimeError):
    """A guarantee cannot be kept. The message names the remedy."""

    exit_code = 4


class Fenced(HubbubError, RuntimeError):
    """Another process has joined the group under the name of this worker, and has its partitions now."""

    exit_code = 4

    def __init__(self, name: str) -> None:
        super().__init__(
            f"another process has started with the name {name!r} (HUBBUB_INSTANCE), and counts in place of this one; "
            "give every worker a name of its own"
        )


class ClassicGroupsRefused(HubbubError, RuntimeError):
    """The brokers offer only the newer group protocol."""

    exit_code = 4

    def __init__(self, servers: str) -> None:
        super().__init__(
            f"the brokers at {servers} refuse classic groups, which hubbub's workers need; set "
            "`group.coordinator.rebalance.protocols=classic,consumer` at each broker, and start the worker again"
        )


class TargetRefused(HubbubError):
    """A target of a sink that another sink owns, that other settings wrote, or that was replaced."""

    exit_code = 4


class TargetUnreachable(HubbubError):
    """A target of a sink that does not work for a long time. The message has the last reason."""

    exit_code = 3


class EmbeddedError(HubbubError, RuntimeError):
    """The embedded broker is not installed or does not start."""


class EstimatorEnded(HubbubError, RuntimeError):
    """The estimator process, which makes records, ended again and again."""

    def __init__(self, query: str, tries: int) -> None:
        super().__init__(
            f"the estimator process ended {tries} times over a record of {query}, so the worker exits; the next one "
            "continues from the last state; if memory was short, `hubbub check` prints how much a worker needs"
        )


class ChildEnded(HubbubError, RuntimeError):
    """A command of a demo has ended. The message has its last output."""

    def __init__(self, name: str, code: int, output: str) -> None:
        super().__init__(f"the {name} exited with code {code}: {output}")
        self.exit_code = code if 0 < code < 5 else 1
