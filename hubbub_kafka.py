"""The old name of `hubbub.kafka`: importable for one version more."""

import warnings

from hubbub.errors import KafkaSettingError, KafkaUnreachable  # noqa: F401
from hubbub.kafka import *  # noqa: F403
from hubbub.options import add_kafka as add_options  # noqa: F401

warnings.warn("hubbub_kafka is called hubbub.kafka; the old name goes with 0.3", DeprecationWarning, stacklevel=2)
