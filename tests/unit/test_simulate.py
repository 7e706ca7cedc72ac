"""`hubbub simulate` says why it cannot start."""

import pytest

from producers.simulation import simulate
from tests.queries import make_text

QUERIES = make_text("site", domain=["a", "b"], answers="once", pane="1s") + make_text(
    "profile", attributes={"age": 5, "sex": ["f", "m"]}, answers="once", pane="1s"
)


def test_an_absent_broker_is_an_error(tmp_path, capsys):
    (tmp_path / "hubbub.toml").write_text(QUERIES)
    options = ["--kafka", "127.0.0.1:1", "--queries", str(tmp_path / "hubbub.toml"), "--query", "site", "--port", "0"]
    assert simulate.main(options) == 3
    assert "Kafka at 127.0.0.1:1 cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ([], "--query must name one: site, profile"),
        (["--query", "sight"], "there is no query 'sight': site, profile"),
        (["--query", "site", "--values", "gauss"], "a distribution is uniform"),
        (["--query", "site", "--scenario", "/nowhere.toml"], "/nowhere.toml: cannot be read"),
    ],
)
def test_an_impossible_simulation_is_an_error(tmp_path, capsys, more, text):
    (tmp_path / "hubbub.toml").write_text(QUERIES)
    assert simulate.main(["--queries", str(tmp_path / "hubbub.toml"), *more]) == 2
    assert text in capsys.readouterr().err
