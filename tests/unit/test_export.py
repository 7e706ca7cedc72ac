"""`hubbub export` reads times and refuses wrong options."""

import pytest

from aggregator.publishing.records.decoder import decode
from aggregator.reading.export.command import main, moment
from aggregator.reading.export.finals import gaps
from aggregator.reading.export.table import rows
from tests.boards import HOMEPAGE, START, Crowd, withheld


def test_a_withheld_window_has_a_row_without_values_and_a_sentence():
    crowd = Crowd(HOMEPAGE, clients=500)
    finals = [next(message for message in crowd.next() if message[0] == "estimates") for _ in range(4)]
    finals[2:] = withheld(finals[2], "held"), withheld(finals[3])
    records = [decode(value) for _, _, value in finals]
    for record, reason in zip(records[2:], ("held", "small"), strict=True):
        (row,) = rows(record)
        assert (row["value"], row["unbiased"], row["proved"], row["flags"]) == (None, None, None, reason)
    since = "2023-11-14T22:13:50+00:00"
    assert gaps(records) == [f"homepage 10s: windows since {since} are withheld: fewer reports than the query's crowd"]
    assert gaps(records[:2]) == []


def test_times_have_several_forms(capsys):
    assert [moment(text) for text in ("1700000000", "2023-11-14T22:13:20", "2023-11-14T22:13:20+00:00")] == [START] * 3
    for wrong in (
        ["--from", "yesterday"],
        ["--from", "2023-11-15", "--to", "2023-11-14"],
        ["--format", "parquet"],
        ["--format", "xml"],
        ["--output", "/nowhere/at/all.csv"],
    ):
        with pytest.raises(SystemExit) as ending:
            main(["--query", "q", *wrong])
        assert ending.value.code == 2
        assert "hubbub export: error:" in capsys.readouterr().err
