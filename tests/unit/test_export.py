"""`hubbub export` reads times and refuses wrong options."""

import pytest

from aggregator.reading.export.command import main, moment
from tests.boards import START


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
