"""A publisher to Kafka refuses settings that cannot work."""

import pytest

from hubbub.kafka.settings import Kafka
from oracles.errors import ParameterError
from producers import Publisher


@pytest.mark.parametrize("wrong", [{"memory": 1000}, {"linger": -1}, {"patience": 0}, {"size": 10}, {"reports": 0}])
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(ParameterError):
        Publisher(Kafka(), **wrong)
