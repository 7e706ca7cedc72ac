"""What `hubbub check` and `hubbub plan` say about unknown strings."""

import tomllib

import pytest

from aggregator.plan import check, check_text, command, memory, visibility
from aggregator.plan.kinds import names
from oracles.discover import reach
from tests.queries import make_query, make_text

CRASHES = make_text("crashes", domain={"discover": "text", "length": 24}, epsilon=2.0, pane="5m", windows=["1h", "all"])


def read(text=CRASHES, edition=2, **settings):
    table = tomllib.loads(text)["queries"]["crashes"] | settings
    return make_query(table, name="crashes", edition=edition)


def text_of(query, clients=None, partitions=12):
    return " ".join("\n".join(check_text.lines(query, partitions, clients)).split())


def test_the_outlook_says_which_names_a_million_people_show():
    text = text_of(read(), 1_000_000)
    assert (
        "With 1,000,000 people an hour at epsilon 2 you will find names of 24 letters that more than 1.7% use" in text
    )
    assert "(with length = 8)" in text
    assert "If the names are known before" in text


def test_names_need_a_share_that_falls_with_the_root_of_the_people_and_grows_with_the_length():
    query = read()
    strings = query.strings
    cell = query.only_oracle
    share_of_many, share_of_few = (reach.smallest_share(strings, cell, n) for n in (4_000_000, 1_000_000))
    assert share_of_few / share_of_many == pytest.approx(2.0, rel=0.01)
    shares = [reach.smallest_share(names.resized(strings, length), cell, 1_000_000) for length in (4, 8, 16, 24, 48)]
    assert shares == sorted(shares)
    assert names.people_of_names(strings, cell, share_of_few) == pytest.approx(1_000_000, rel=0.02)
    assert reach.smallest_share(strings, cell, 0) is None
    assert "no names" in text_of(query, 100)


def test_costs_are_those_of_the_tally():
    query = read()
    assert query.oracle.state_size * 8 == 8_396_928
    text = text_of(query)
    assert "Memory: 8.0 MiB for each open pane and partition, 192.2 MiB in all." in text
    changelog, snapshots = names.written(query, 12)
    assert snapshots == 12 * query.oracle.state_size * 2 * 288
    assert changelog <= names.BYTES_PER_S * 86_400
    assert "48 searches a day" in text
    assert memory.worker([query], 12).total > 12 * 2 * query.oracle.state_size * 8
    assert read(windows=["5m", "all"], search="2h").searches_a_day == 12


def test_windows_are_shown_if_each_map_holds_a_crowd():
    assert visibility.shown_shares(read(), 20_000)[read().windows[0]] == 1.0
    few_query = read(windows=["5m", "1h"])
    pane, _ = few_query.windows
    assert visibility.reports_per_second(few_query, 10_000) * 300 > 800
    assert visibility.shown_shares(few_query, 10_000)[pane] < 0.1
    assert any("holds about 35 reports of each map" in text for text in visibility.small_steps(few_query, 10_000))


def test_a_string_can_be_personal():
    text = text_of(read())
    assert "a string can itself be personal" in text
    assert "Remove such parts on the device" in text
    assert "at least 50 reports" in text


def test_settings_that_find_nothing_bring_warnings():
    assert "no name is ever found" in text_of(read(windows=["10m"], search="1h"))
    assert "no name is ever found" not in text_of(read(windows=["10m", "all"], search="1h"))
    upper = read(domain={"discover": "text", "length": 4, "alphabet": "abC "})
    assert 'normal = "NFC lower" never makes these symbols of the alphabet: C' in text_of(upper)


def test_definitions_above_the_memory_of_a_worker_are_refused_with_both_numbers(tmp_path, capsys):
    path = tmp_path / "hubbub.toml"
    path.write_text("edition = 2\n" + CRASHES + 'lateness = "1d"\n')
    assert check.main([str(path)]) == 2
    error = capsys.readouterr().err
    assert "needs 27.2 GiB for 290 open panes of 1,049,616 integers each (8.0 MiB), above --max-state 4.0 GiB" in error
    assert "fewer `cells` or a smaller `length`" in error
    assert check.main([str(path), "--max-state", "28GiB"]) == 0


def test_the_plan_has_the_sentences_of_check_and_a_table_by_length(capsys):
    assert command.main(["--strings", "24", "--clients", "1e6", "--epsilon", "2"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "With 1,000,000 people in a window at epsilon 2 you will find names of 24 letters that more than 1.7%" in text
    )
    assert "24 1.7% 2,890,000" in text
    for arguments in (["--strings", "24"], ["--strings", "24", "--clients", "9", "--size", "3"]):
        with pytest.raises(SystemExit):
            command.main(arguments)


@pytest.mark.parametrize("edition", [1, 2])
def test_the_command_checks_a_file(tmp_path, capsys, edition):
    path = tmp_path / "hubbub.toml"
    path.write_text(f"edition = {edition}\n" + CRASHES)
    assert check.main([str(path), "--clients", "1000000", "--long"]) == 0
    text = capsys.readouterr().out
    assert "12 levels or 4 maps of 65,536 cells" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
