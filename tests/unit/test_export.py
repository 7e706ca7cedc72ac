"""`hubbub export` reads times and refuses wrong options."""

from datetime import UTC, datetime
from itertools import chain

import polars as pl
import pytest

from aggregator.reading.export import command, reader
from aggregator.reading.export.command import main
from aggregator.reading.export.finals import answers, gaps, no_group
from aggregator.records.decoder import decode
from aggregator.records.flat_rows import column_lists, record_filter, rows
from aggregator.records.row_columns import COLUMNS
from hubbub.moments import unix_seconds
from oracles.errors import ParameterError
from tests.boards import HOMEPAGE, LOAD_TIME, PANE, SCREENS, START, Crowd, GroupCrowd, NumberCrowd, withheld
from tests.string_crowds import CRASHES, StringCrowd


def test_a_withheld_window_has_a_row_without_values_and_a_sentence():
    crowd = Crowd(HOMEPAGE, clients=500)
    finals = [next(message for message in crowd.next() if message[0] == "estimates") for _ in range(4)]
    finals[2:] = withheld(finals[2], "held"), withheld(finals[3])
    records = [decode(value) for _, _, value in finals]
    for record, reason in zip(records[2:], ("held", "small"), strict=True):
        (row,) = rows(record)
        assert row["value"] is None
        assert row["unbiased"] is None
        assert row["proved"] is None
        assert row["flags"] == reason
    since = "2023-11-14T22:13:50+00:00"
    assert gaps(records) == [f"homepage 10s: windows since {since} are withheld: fewer reports than the query's crowd"]
    assert gaps(records[:2]) == []


def test_a_row_has_the_range_of_its_rank_and_what_the_record_reveals():
    message = next(message for message in Crowd(HOMEPAGE, clients=20_000).next() if message[0] == "estimates")
    record = decode(message[2])
    ranks = {hitter.value: hitter.ranks for hitter in record.hitters("unbiased")}
    table = rows(record)
    assert [row["first_rank"] for row in table] == [ranks.get(row["value"], [None])[0] for row in table]
    assert [row["last_rank"] for row in table] == [ranks.get(row["value"], [None, None])[1] for row in table]
    assert table[0]["first_rank"] == 1
    assert {row["central"] for row in table} == {record.central.epsilon}
    assert COLUMNS.keys() > table[0].keys()


def test_times_have_several_forms(capsys):
    texts = ("1700000000", "2023-11-14T22:13:20", "2023-11-14T22:13:20+00:00")
    assert [unix_seconds(text) for text in texts] == [START] * 3
    for wrong_value in (
        ["--from", "yesterday"],
        ["--from", "2023-11-15", "--to", "2023-11-14"],
        ["--format", "parquet"],
        ["--format", "xml"],
        ["--output", "/nowhere/at/all.csv"],
        ["--output", "/"],
    ):
        with pytest.raises(SystemExit) as ending:
            main(["--query", "q", *wrong_value])
        assert ending.value.code == 2
        assert "hubbub export: error:" in capsys.readouterr().err


def test_numbers_have_a_row_for_each_quantile_mean_and_range():
    crowd = NumberCrowd(LOAD_TIME, clients=20_000)
    messages = [message for message in crowd.next() if message[0] == "estimates"]
    records = [decode(messages[0][2]), decode(withheld(messages[0])[2])]
    lines = rows(records[0])
    last_rows = rows(records[1])
    fields = records[0].rest()["numbers"]
    assert [line["value"] for line in lines] == ["p50", "p90", "p95", "p99", "mean", "geometric_mean", "slow"]
    by_name = {line["value"]: line for line in lines}
    for name, quantity in [("p95", fields["quantiles"]["0.95"]), ("mean", fields["mean"])]:
        line = by_name[name]
        assert [line[key] for key in ("number", "low", "high")] == [quantity[key] for key in ("value", "low", "high")]
        assert line["unit"] == "ms"
        assert line["level"] == 0.95
        assert line.get("unbiased") is None
    slow = fields["ranges"]["slow"]
    keys = ("unbiased", "stderr", "low", "high")
    assert [by_name["slow"][key] for key in keys] == [slow[key] for key in ("share", "stderr", "low", "high")]
    assert [line["value"] for line in last_rows] == [None]
    table = column_lists(records)
    assert table["number"][-1] is None
    assert len({len(column) for column in table.values()}) == 1


def test_a_table_of_numbers_has_the_types_of_its_columns():
    crowd = NumberCrowd(LOAD_TIME, clients=20_000)
    values = [message[2] for _ in range(2) for message in crowd.next() if message[0] == "estimates"]
    records = [decode(value) for value in values]
    frame = reader.table([record for record in records if record.span.window.kind == "tumbling"])
    assert frame.filter(frame["value"] == "p50")["unit"].to_list() == ["ms", "ms"]
    assert frame["number"].null_count() == 2, "the share of the range slow is in another column, once a window"
    changes = reader.difference_table(records, (START + PANE, START + 2 * PANE), 0.05)
    assert changes["value"].to_list()[0] == "p50"
    assert set(changes["measure"]) == {"number", "share"}


def test_rows_are_those_of_the_total_or_of_one_group():
    crowd = GroupCrowd(SCREENS)
    messages = [*chain.from_iterable(crowd.next() for _ in range(2))]
    records = [decode(value) for _, _, value in messages]

    def groups(*arguments, **settings):
        is_match = record_filter(0, None, "tumbling", *arguments, **settings)
        return [record.group for record in records if is_match(record)]

    assert groups() == [None] * 2
    assert groups("ios") == ["ios"] * 2
    assert groups(all_groups=True) == [None, "(none)", "ios", "android", "web"] * 2
    frame = reader.table([record for record in records if record.group == "ios"])
    assert set(frame["group"]) == {"ios"}
    assert set(frame["n"]) == {9_000}
    changes = reader.difference_table(records, (START + PANE, START + 2 * PANE), 0.05)
    assert set(changes["group"]) == {None, "ios", "android", "web"}
    assert [text.split(":")[0] for text in gaps(records)] == ["screens, (none) 10s"]


def test_a_weighted_total_has_columns_of_its_own():
    """Only the total of a query with weights has numbers there."""
    names = ("by_weight", "by_weight_low", "by_weight_high")
    records = [decode(value) for _, _, value in GroupCrowd(SCREENS).next()]
    for record in records:
        total = record.rest()["weighted"]
        lines = rows(record)
        if total is None:
            assert record.group is not None
            assert [[line.get(name) for name in names] for line in lines] == [[None] * 3] * len(lines)
        else:
            columns_of_total = zip(total["shares"]["unbiased"], total["low"], total["high"], strict=True)
            assert [tuple(line[name] for name in names) for line in lines] == [*columns_of_total]
    assert sum(record.group is None for record in records) == 1
    frame = reader.table(records)
    assert frame["by_weight"].null_count() == sum(len(rows(record)) for record in records if record.group is not None)


def test_tables_of_all_kinds_of_queries_have_the_same_columns_and_types():
    crowds = [Crowd(HOMEPAGE, clients=2_000), GroupCrowd(SCREENS), NumberCrowd(LOAD_TIME), StringCrowd(START)]
    tables = [reader.table([])]
    for crowd in crowds:
        messages = [message for message in crowd.next() if message[0] == "estimates"]
        tables.append(reader.table([decode(value) for _, _, value in messages]))
    for table in tables:
        assert table.schema == tables[0].schema
    assert pl.concat(tables).height == sum(table.height for table in tables)
    assert tables[1]["end"][0] == datetime.fromtimestamp(START + PANE, UTC)


def test_an_unknown_kind_of_window_is_an_error_before_kafka_is_asked():
    with pytest.raises(ParameterError, match="there is no kind of window 'tumbing'; did you mean 'tumbling'"):
        reader.read("127.0.0.1:1", "homepage", kind="tumbing")


def test_two_windows_or_two_groups_are_compared_but_not_one_with_itself():
    for pair in [(START, START), ("ios", "ios")]:
        with pytest.raises(ParameterError, match="two different windows or groups"):
            reader.pair_filter(pair)
    with pytest.raises(ParameterError, match="leave `group` out"):
        reader.pair_filter(("ios", "web"), group="android")
    with pytest.raises(ParameterError, match="leave `compare` or `ask` out"):
        reader.read("127.0.0.1:1", "crashes", compare=(START, START + PANE), ask=["oom"])


def test_windows_of_unknown_strings_are_not_compared():
    records = [decode(value) for topic, key, value in StringCrowd(START).next() if topic == "estimates"]
    with pytest.raises(ParameterError, match="no list of values"):
        reader.difference_table(records, (START, START + PANE), 0.05)


def test_asking_a_query_that_lists_its_values_is_an_error():
    record = next(decode(value) for topic, _, value in Crowd(HOMEPAGE).next() if topic == "estimates")
    key = record.digest, None, None, "tumbling", PANE, PANE, record.span.end
    with pytest.raises(ParameterError, match="the query has no unknown strings to ask for; leave `ask` out"):
        answers({HOMEPAGE.digest: HOMEPAGE}, {key: record}, {}, ["oom"])


def test_finals_that_cannot_tell_of_a_string_keep_a_row_with_the_reason(caplog):
    messages = StringCrowd(START).next()
    records = [decode(value) for topic, _, value in messages if topic == "estimates"]
    keys = [(record.span.window, record.span.end) for record in records]
    whole_message = next(value for topic, _, value in messages if topic == "maps")
    matches = dict(zip(keys, records, strict=True))
    queries = {CRASHES.digest: CRASHES}
    result = answers(queries, matches, {keys[0]: whole_message}, ["oom"])
    assert [*result] == keys
    whole_table, empty_table = (rows(result[key]) for key in keys)
    assert [row["reason"] for row in whole_table] == [None]
    assert [(row["value"], row["unbiased"], row["level"]) for row in empty_table] == [("oom", None, None)]
    assert empty_table[0]["reason"] == "the maps of this window are missing or unreadable"
    assert (
        "finals without shares, because their maps are not in the topic maps, or the user may not read it: 1 of 2"
        in caplog.text
    )
    answers(queries, matches, {keys[0]: whole_message, keys[1]: b"{}"}, ["oom"])
    assert "finals without shares, because their maps cannot be read: 1 of 2" in caplog.text
    answers({}, matches, {keys[0]: whole_message}, ["oom"])
    assert "because their definition is not in the topic of queries: 2 of 2" in caplog.text
    caplog.clear()
    answers(queries, matches, dict.fromkeys(keys, whole_message), ["oom"])
    assert not caplog.text


def test_a_message_about_an_unknown_group_names_the_groups():
    groups = {"web", "ios"}
    assert no_group("screens", ["ios"], groups) == no_group("screens", [], groups) == ""
    assert no_group("screens", ["ios", "mac"], groups).endswith("of the group 'mac'; choose from ios, web")
    assert no_group("homepage", ["ios"], set()).endswith("of the group 'ios'; they have no groups")


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_file_that_cannot_be_written_is_named_in_a_sentence(form, monkeypatch, capsys):
    message = next(message for message in Crowd(HOMEPAGE, clients=20_000).next() if message[0] == "estimates")

    async def finals(*_arguments, **_options):
        return [decode(message[2])]

    monkeypatch.setattr(command, "finals", finals)
    assert main(["--query", "homepage", "--format", form, "--output", "/dev/full"]) == 1
    assert capsys.readouterr().err.startswith("hubbub export: /dev/full cannot be written: ")
