"""Times that users give have the same forms in all commands and in `hubbub.read`."""

from datetime import UTC, date, datetime, time, timedelta, timezone

import numpy as np
import pytest

import hubbub
from aggregator.reading.audit import command as audit
from aggregator.reading.export import command as export
from hubbub.moments import unix_seconds
from oracles.errors import ParameterError

MIDNIGHT = 1_793_491_200
"""The first second of 1 November 2026."""
HOUR = 3600


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        ("2026-11-01", MIDNIGHT),
        ("20261101", MIDNIGHT),
        (20_261_101, 20_261_101),
        ("20261301", 20_261_301),
        (str(MIDNIGHT), MIDNIGHT),
        (MIDNIGHT, MIDNIGHT),
        ("2026-11-01T01:00", MIDNIGHT + HOUR),
        ("2026-11-01T01:00:00Z", MIDNIGHT + HOUR),
        ("2026-11-01T01:00+01:00", MIDNIGHT),
        (date(2026, 11, 1), MIDNIGHT),
        (datetime(2026, 11, 1, 1), MIDNIGHT + HOUR),  # noqa: DTZ001 - a time without a zone
        (datetime(2026, 11, 1, 1, tzinfo=UTC), MIDNIGHT + HOUR),
        (datetime(2026, 11, 1, 1, tzinfo=timezone(timedelta(hours=1))), MIDNIGHT),
        (0, 0),
        ("0", 0),
        (MIDNIGHT + 0.75, MIDNIGHT),
        (np.int64(MIDNIGHT), MIDNIGHT),
    ],
)
def test_a_moment_has_several_forms(moment, seconds):
    assert unix_seconds(moment) == seconds


@pytest.mark.parametrize("moment", ["1793491200000", 1_793_491_200_000])
def test_milliseconds_are_refused(moment):
    with pytest.raises(ParameterError, match="not milliseconds"):
        unix_seconds(moment)


@pytest.mark.parametrize("moment", ["yesterday", "", "2026-13-01", "1e9", "-5", "\u0661\u0662"])
def test_other_texts_are_refused(moment):
    with pytest.raises(ParameterError, match="must be a date, a time"):
        unix_seconds(moment)


@pytest.mark.parametrize("moment", [True, float("nan"), float("inf"), time(1), [MIDNIGHT], None])
def test_other_values_are_refused(moment):
    with pytest.raises(ParameterError, match="must be Unix seconds, a text, a date or a datetime"):
        unix_seconds(moment)


@pytest.mark.parametrize(("main", "more"), [(audit.main, []), (export.main, ["--query", "q"])])
@pytest.mark.parametrize(("text", "fault"), [("yesterday", "must be a date"), ("1793491200000", "milliseconds")])
def test_commands_refuse_the_same_texts(main, more, text, fault, capsys):
    with pytest.raises(SystemExit) as ending:
        main([*more, "--from", text])
    assert ending.value.code == 2
    assert fault in capsys.readouterr().err


def test_a_table_refuses_a_wrong_time_before_it_reads():
    with pytest.raises(ParameterError, match="must be a date"):
        hubbub.read("127.0.0.1:1", "homepage", since="yesterday")
