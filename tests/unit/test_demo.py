"""`hubbub demo` refuses options that cannot work."""

import pytest

from aggregator.demo import command as demo


def test_a_missing_requirement_is_an_error(tmp_path, capsys):
    assert demo.main(["--kafka", "127.0.0.1:1", "--no-browser"]) == 3
    assert "hubbub demo: Kafka at 127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    assert demo.main(["--queries", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: cannot be read" in capsys.readouterr().err
    for wrong in (["--seconds", "0"], ["--kafka", "here"], ["--prefix", "a b"]):
        with pytest.raises(SystemExit) as ending:
            demo.main(wrong)
        assert ending.value.code == 2
