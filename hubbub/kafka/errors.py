"""The errors of Kafka, in addition to those of `oracles.errors`. The number is the exit code of a command.

HubbubError                 1
├── ParameterError          2   an invalid option
├── QueryError              2   an invalid query file
├── KafkaSettingError       2   an invalid address or login (also a ValueError)
├── KafkaUnreachable        3   no broker answers or accepts the login (also a ConnectionError)
├── TopicMissing            4   a topic does not exist
└── AccessRefused           4   Kafka's access lists refuse a needed operation
"""

from oracles.errors import HubbubError


class KafkaSettingError(HubbubError, ValueError):
    """An option or environment variable with an invalid address or login of Kafka."""

    exit_code = 2


class KafkaUnreachable(HubbubError, ConnectionError):
    """A failure to reach or log in to any broker. The message gives the reason."""

    exit_code = 3


class TopicMissing(HubbubError):
    """Topics that do not exist. The message has a line for each."""

    exit_code = 4

    def __init__(self, *topics: str) -> None:
        super().__init__("\n".join(f"{topic}: there is no such topic; run `hubbub topics`" for topic in topics))


class AccessRefused(HubbubError):
    """An operation that Kafka's access lists refuse. The message names the missing rights."""

    exit_code = 4
