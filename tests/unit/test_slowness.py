"""Limits that end a hang grow with the load of the machine, and never shrink."""

import os

import pytest

from tests import slowness


@pytest.mark.parametrize(("load", "work", "factor"), [(0.0, 0.9, 1.0), (20.0, 1.0, 10.0), (1.0, 4.0, 4.0)])
def test_patience_follows_the_load_and_the_time_that_work_took(monkeypatch, load, work, factor):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(slowness, "_slowness_of_work", lambda: work)
    assert slowness.patience(60.0) == 60.0 * factor


def test_work_is_never_faster_than_its_cpu_time():
    assert slowness.slowness() >= 1.0
