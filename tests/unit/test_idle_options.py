"""An option that has no effect with the others is refused, in one line that names it."""

import pytest

from aggregator.demo import command as demo
from aggregator.plan import check, init
from aggregator.plan import command as plan
from aggregator.reading.export import command as export
from aggregator.reading.tail import command as tail
from aggregator.sink import command as sink
from aggregator.topics import command as topics
from aggregator.worker import command as worker
from producers import pin_command as pin
from producers.gateway.access import token_command as token
from producers.simulation import simulate

VALUES = ["--clients", "10", "--size", "4"]
SHARED = ["--name", "a", "--quota", "9"]
LOWER = "with --lower-formats, which leaves the topics as they are"
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
    (plan, [*VALUES, "--json"], "--json has no effect without --arms"),
    (plan, [*VALUES, "--values", "9"], "--values has no effect without --arms"),
    (plan, ["--table", "4x4", "--answers", "once", "--budget", "3"], "--budget has no effect with --answers once here"),
    (plan, ["--strings", "8", "--clients", "9", "--answers", "fresh", "--budget", "3"], "--budget has no effect with"),
    (plan, ["--arms", "2", "--delta", "0.1", "--answers", "once", "--budget", "3"], "--budget has no effect with"),
    (plan, [*VALUES, "--wid", "0.1"], "--width has no effect without --number"),
    (check, ["--retire", "old"], "--retire has no effect without --topic"),
    (check, ["--prefix", "a."], "--prefix has no effect without --topic"),
    (check, ["--embedded"], "--embedded has no effect without --topic"),
    (check, ["a.toml", "--queries", "b.toml"], "--queries has no effect with the file a.toml"),
    (check, ["--long", "--format", "json"], "--long has no effect with --format json"),
    (init, ["--kafka", "127.0.0.1:9"], "--kafka has no effect without --query"),
    (init, ["--prefix", "a."], "--prefix has no effect without --query"),
    (pin, ["q", "--gateway", "https://a.example", "--queries", "a.toml"], "--queries has no effect with --gateway"),
    (sink, ["--to", "out", "--health-port", "0", "--port", "0"], "--port has no effect with --health-port"),
    (sink, ["--to", "out", "--host", "127.0.0.1"], "--host has no effect without --health-port or --port"),
    (token, [*SHARED, "--for", "1h"], "--for has no effect without --sign"),
    (token, [*SHARED, "--each", "3"], "--each works only with --key"),
    (token, ["--name", "a", "--sign", "key", "--quota", "9"], "--quota works only for a new token or key"),
    (topics, ["--lower-formats", "--partitions", "3"], f"--partitions has no effect {LOWER}"),
    (topics, ["--lower-formats", "--replication", "3"], f"--replication has no effect {LOWER}"),
    (topics, ["--lower-formats", "--max-frame", "1MiB"], f"--max-frame has no effect {LOWER}"),
    (topics, ["--lower-formats", "--queries", "a.toml"], f"--queries has no effect {LOWER}"),
    (topics, ["--lower-formats", "--stop-workers", "a", "--stop-hint", "b"], f"and --stop-hint have no effect {LOWER}"),
    (topics, ["--stop-workers", "a"], "--stop-workers has no effect without --raise-formats"),
    (worker, ["--leave"], "--leave needs --instance"),
    (worker, ["--instance", "a", "--embedded"], "--instance needs Apache Kafka"),
    (export, ["--query", "q", "--group", "a", "--all-groups"], "--group and --all-groups exclude each other"),
    (plan, [*VALUES, "--delta", "0.1"], "--delta has no effect without --arms"),
    (plan, ["--arms", "2", "--delta", "0.1", "--cells", "14"], "--cells has no effect with --arms"),
    (tail, ["--json", "--top", "3"], "--top has no effect with --json"),
    (tail, ["--provisional"], "--provisional has no effect without --json"),
    (demo, ["--device-file", "a.html", "--seconds", "3"], "--seconds has no effect with --device-file"),
    (simulate, ["--groups", "", "--group-values", "a=zipf:1.1"], "--groups is empty"),
    (simulate, ["--start", "0", "--rate", "max", "--seconds", "9"], "--start does not work with --rate max"),
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


def test_unknown_strings_take_no_list_and_no_groups(tmp_path, capsys):
    """The answer `names` makes the kind too, so the options alone do not tell."""
    path = str(tmp_path / "hubbub.toml")
    for kind in (["--kind", "names"], ["--values", "names"]):
        assert init.main(["--yes", *kind, "--groups", "g:a,b", "--queries", path]) == 2
        assert "unknown strings take no groups: leave --groups out" in capsys.readouterr().err
    assert init.main(["--yes", "--kind", "names", "--values", "9", "--queries", path]) == 2
    assert "nobody can list unknown strings: leave --values out" in capsys.readouterr().err
    assert init.main(["--yes", "--values", "names", "--groups", "none", "--queries", path]) == 0
