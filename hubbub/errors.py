"""The errors of the floor, beside those of `oracles.errors`; each class says with which code a command ends.

HubbubError                 1
├── ParameterError          2   an option that cannot be had
├── QueryError              2   a query file that cannot be used
├── KafkaSettingError       2   it does not say where Kafka is, or how to log in (also a ValueError)
├── KafkaUnreachable        3   no broker answers, or none lets us in (also a ConnectionError)
├── TopicMissing            4   Kafka does not have a topic
└── AccessRefused           4   Kafka's access lists do not let this user do what is needed
"""

from oracles.errors import HubbubError


class KafkaSettingError(HubbubError, ValueError):
    """An option or environment variable that does not say where Kafka is or how to log in."""

    exit_code = 2


class KafkaUnreachable(HubbubError, ConnectionError):
    """No broker answers, or none lets us in; the message says why."""

    exit_code = 3


class TopicMissing(HubbubError):
    """Kafka does not have topics that are needed; a line each."""

    exit_code = 4

    def __init__(self, *topics: str) -> None:
        super().__init__("\n".join(f"{topic}: there is no such topic; run `hubbub topics`" for topic in topics))


class AccessRefused(HubbubError):
    """Kafka's access lists do not let this user do what is needed; the message names the rights."""

    exit_code = 4
