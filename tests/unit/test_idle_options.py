"""An option that has no effect with the others is refused, in one line that names it."""

import pytest

from aggregator.demo import command as demo
from aggregator.plan import check
from aggregator.plan import command as plan
from aggregator.reading.tail import command as tail
from producers.simulation import simulate

VALUES = ["--clients", "10", "--size", "4"]
CASES = [
    (plan, [*VALUES, "--bins", "64"], "--bins has no effect without --number"),
    (plan, [*VALUES, "--width=0.1"], "--width has no effect without --number"),
    (plan, [*VALUES, "--cells", "14"], "--cells has no effect without --strings"),
    (plan, [*VALUES, "--fill", "0.5", "--speed", "2"], "--fill and --speed have no effect without --rate"),
    (plan, [*VALUES, "--queries", "q.toml"], "--queries has no effect without --rate"),
    (plan, ["--number", "--clients", "10", "--budget", "3"], "--budget has no effect with --number"),
    (
        plan,
        ["--strings", "8", "--clients", "10", "--target-share", "0.1"],
        "--target-share has no effect with --strings",
    ),
    (plan, ["--rate", "1e6", "--epsilon", "2"], "--epsilon has no effect with --rate"),
    (check, ["--retire", "old"], "--retire has no effect without --topic"),
    (check, ["--prefix", "a."], "--prefix has no effect without --topic"),
    (plan, [*VALUES, "--delta", "0.1"], "--delta has no effect without --arms"),
    (plan, ["--arms", "2", "--delta", "0.1", "--cells", "14"], "--cells has no effect with --arms"),
    (tail, ["--json", "--top", "3"], "--top has no effect with --json"),
    (tail, ["--provisional"], "--provisional has no effect without --json"),
    (demo, ["--device-file", "a.html", "--seconds", "3"], "--seconds has no effect with --device-file"),
    (simulate, ["--groups", "", "--group-values", "a=zipf:1.1"], "--group-values needs --groups"),
    (simulate, ["--group-values", "a=zipf:1.1"], "--group-values needs --groups"),
]


@pytest.mark.parametrize(("command", "arguments", "message"), CASES)
def test_an_option_without_effect_is_refused(command, arguments, message, capsys):
    with pytest.raises(SystemExit) as ending:
        command.main(arguments)
    assert ending.value.code == 2
    assert message in capsys.readouterr().err


def test_an_environment_variable_is_for_all_commands(monkeypatch, tmp_path):
    """It is no request, so it may have no effect."""
    (tmp_path / "hubbub.toml").write_text('[queries.q]\ndomain = 4\nepsilon = 1.0\npane = "10s"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUBBUB_PREFIX", "a.")
    monkeypatch.setenv("HUBBUB_RETIRE", "old")
    assert check.main([]) == 0
