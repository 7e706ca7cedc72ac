"""`hubbub check` prints the right numbers and text, and refuses wrong files."""

import math
import re
import tomllib

import pytest

from aggregator.plan import check, check_table, check_text, costs, init, readers
from aggregator.process import state_limit
from hubbub.command import options
from oracles.estimate import quantile
from oracles.query import load, parse
from tests.queries import make_query

ONE = 'domain = ["a", "b"]\noracle = "olh"\nepsilon = 1.0\npane = "10s"\n'
SEVERAL = 'attributes = { sex = ["f", "m"], age = 74 }\nepsilon = 1.0\npane = "10s"\nbudget = 1000\n'
GRR = 'domain = 1024\noracle = "grr"\nepsilon = 1.0\npane = "10s"\nbudget = 2000\n'


def read(body, name="q"):
    return parse(tomllib.loads(f"[queries.{name}]\n{body}"), "hubbub.toml", ".")[name]


def text_of(body, name="q", partitions=12):
    """Return the text about a query as one line."""
    return " ".join("\n".join(check_text.lines(read(body, name), partitions)).split())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HUBBUB_QUERIES", raising=False)
    return tmp_path


def write(folder, body, name="hubbub.toml"):
    (folder / name).write_text(body)


@pytest.mark.parametrize(
    ("lateness", "skew", "pane", "panes"),
    [("5s", "60s", "10s", 8), ("0s", "0s", "10s", 2), ("5s", "5s", "10s", 3), ("5s", "4s", "10s", 2)],
)
def test_open_panes_cover_lateness_and_skew(lateness, skew, pane, panes):
    query = read(f'domain = 9\nepsilon = 1\npane = "{pane}"\nlateness = "{lateness}"\nskew = "{skew}"')
    assert check_text.open_panes(query) == panes
    # By counting: all panes whose reports may come at a moment, in any position of the clock within a pane.
    maximum = max(
        sum(start <= clock + query.skew and clock <= start + query.pane + query.lateness for start in range(0, 900, 10))
        for clock in range(300, 330)
    )
    assert maximum == panes


def test_state_and_checkpoints_count_eight_bytes_an_integer():
    query = read(ONE)
    assert state_limit.worker_bytes(query, 12) == 12 * 8 * query.oracle.state_size * 8
    assert check_text.checkpoint_rate(query, 12) == 12 * query.oracle.state_size * 8 / check_text.INTERVAL


@pytest.mark.parametrize(
    ("text", "count"),
    [("4GiB", 4 << 30), ("512MiB", 512 << 20), ("1.5KiB", 1536), ("4096", 4096), ("7B", 7), ("2 TiB", 2 << 40)],
)
def test_sizes_are_parsed(text, count):
    assert options.size(text) == count


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (1 << 30, "1.0 GiB"), (3 << 60, "3,072.0 PiB"), (0.4, "0 B")],
)
def test_sizes_are_formatted(count, text):
    assert options.in_bytes(count) == text


def test_errors_equal_the_errors_of_the_oracle():
    query = read(ONE)
    sigma, detectable = check_text.errors(query, query.oracle, 10**6)
    assert sigma == pytest.approx(math.sqrt(query.oracle.variance(10**6)))
    minimum = quantile(0.05 / 3) * sigma
    assert minimum < detectable < 1.1 * (minimum + 1.2816 * math.sqrt(query.oracle.variance(10**6, detectable)))


def test_with_smp_a_share_of_the_clients_answers_each_attribute():
    smp = read(SEVERAL)
    rsfd = read(SEVERAL + 'solution = "rsfd"')
    assert check_text.reports_per_attribute(smp, 10**4) == 5000
    assert check_text.reports_per_attribute(rsfd, 10**4) == 10**4
    view = smp.oracle.attributes[0]
    assert check_text.errors(smp, view, 10**4)[0] == pytest.approx(math.sqrt(view.variance(5000)))


def test_undetectable_shares_are_marked():
    assert ">1" in text_of('domain = 100\noracle = "grr"\nepsilon = 0.01\npane = "10s"\nbudget = 9')


def test_without_answers_there_are_no_errors():
    query = read(SEVERAL)
    sigma, detectable = check_text.errors(query, query.oracle.attributes[0], 1)
    assert math.isnan(sigma)
    assert detectable is None


def test_the_text_about_a_query_is_complete():
    text = text_of(ONE + "budget = 6.5")
    query = read(ONE)
    assert text.startswith(f"q {query.digest.hex()} ")
    for part in (
        'answer 2 and "(other)" olh 0.475367 0.25',
        "One report is 1-LDP: no report is more than exp(1) = 2.7183 times as likely",
        "Answers for life: from its first answer on a client has one report for each of its K = 3 classes, and is",
        "by at most exp(m 1), with m <= K the number of classes that it had: 3-LDP.",
        "Not protected: whether, when and how often its class changed",
        "Charge: 3 for the first answer of a round, of a budget of 6.5, before the client reads the value.",
        "report 4 B",
        "tally 544 B, 68 integers",
        "worker at most 51.0 KiB: 8 open panes on each of 12 partitions",
        "ids at most 2.2 GiB: in addition, 250,000 of frames (max_ids) x 8 open panes on each of 12 partitions",
        "checkpoints at most 3.2 KiB/s",
        "reports 10,000 1,000,000 100,000,000",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("solution", "promise"),
    [
        ("spl", "One report of a whole record is 1-LDP: it answers each of its 2 attributes with epsilon/2."),
        (
            "smp",
            "One report of a whole record is 1-LDP: it answers one of its 2 attributes, drawn at random. Everybody",
        ),
        ("rsfd", "One report of a WHOLE record is 1.4899-LDP: epsilon' = ln(d (exp(epsilon) - 1) + 1) with d = 2"),
        (
            "rsfd",
            "epsilon = 1 of the file holds only between records that differ in ONE attribute, and even then not",
        ),
        ("rsfd", "All its reports together are 1.4899-LDP for any two histories"),
    ],
)
def test_each_solution_has_its_promise(solution, promise):
    assert promise in text_of(f'{SEVERAL}solution = "{solution}"')


def test_fresh_answers_add_up_until_silence():
    text = text_of(ONE + 'budget = 2.5\nanswers = "fresh"\nrenew = "30d"')
    assert "they add up: in each round of 30 days a client is silent after 2 answers, for any answers." in text
    assert "All its reports together are 2-LDP for any two histories." in text
    assert "This holds for a round. Any 30 days may touch two rounds." in text
    assert "Charge: 1 for each answer, of a budget of 2.5" in text


def test_the_charges_of_a_file_are_summed(folder, capsys):
    write(folder, f"[queries.one]\n{ONE}\n[queries.two]\n{SEVERAL}")
    assert check.main(["--long"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "answers all 2 queries is charged 77 in a round. It needs max_epsilon = 77, above the SDK's default of 8"
        in text
    )
    write(folder, f"[queries.one]\n{ONE}")
    assert check.main(["--long"]) == 0
    assert "charged 3 in a round. It needs max_epsilon = 3, which is within" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_promise_is_never_rounded_in_its_favour():
    assert "One report is 1.2346-LDP" in text_of(ONE.replace("1.0", "1.23451"))
    assert "One report is 0.1-LDP" in text_of(ONE.replace("1.0", "0.1"))
    assert "0.002-LDP" in text_of(ONE.replace("1.0", "0.001") + "budget = 1e308")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (GRR, "answer: grr over 1,024 values: one fake report shifts a share as much as 596 clients do"),
        (
            'attributes = { a = 400, b = 2 }\noracle = "grr"\nepsilon = 1\npane = "10s"\nbudget = 500',
            "a: grr over 400 values: one fake report shifts a share as much as 233 clients do",
        ),
        (ONE.replace("1.0", "8.5"), "epsilon 8.5 is above 8 and gives little privacy"),
        (SEVERAL.replace("1.0", "7.9") + 'solution = "rsfd"', "epsilon 8.59"),
        (
            ONE + "other = false",
            "answer: other = false: a client with an answer outside the values sends nothing, which reveals that",
        ),
    ],
)
def test_an_unusual_setting_gives_one_warning(body, reason):
    (warning,) = check_text.warnings(read(body))
    assert warning.startswith(reason)
    assert f"warning {reason}" in text_of(body)


@pytest.mark.parametrize(
    "body",
    [
        ONE,
        SEVERAL,
        GRR.replace("1024", "300"),
        ONE.replace("1.0", "8"),
        ONE + "budget = 3",
        ONE + 'windows = ["10s", "1m/10s", "all"]\ncrowd = 1',
    ],
)
def test_an_ordinary_query_gives_no_warning(body):
    assert list(check_text.warnings(read(body))) == []


def test_a_short_period_is_a_note_and_no_warning(folder, capsys):
    body = ONE + 'windows = ["1m", "all"]\nperiod = "30s"\ncrowd = 1\n'
    assert list(check_text.warnings(read(body))) == []
    assert "note the period of 30 s is shorter than the longest finite window, 60 s" in text_of(body)
    write(folder, f"edition = 2\n[queries.one]\n{body}")
    assert check.main([]) == 0
    assert "period" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", init.KINDS)
def test_check_warns_of_a_file_of_init_only_of_personal_strings(folder, capsys, kind):
    assert init.main(["--yes", "--kind", kind]) == 0
    capsys.readouterr()
    assert check.main([]) == 0
    output = capsys.readouterr().out
    assert len(output.splitlines()) <= 12
    assert "with --long\n" not in output
    assert output.count("  warning  ") == (kind == "names")
    assert ("a string can itself be personal" in output) == (kind == "names")


@pytest.mark.parametrize("solution", ["spl", "smp", "rsfd"])
def test_a_line_has_at_most_100_columns(solution):
    long = "n" * 64
    domains = f'{{ {long} = 4000000, {long[1:]} = ["x"] }}'
    body = f'attributes = {domains}\noracle = "grr"\nsolution = "{solution}"\nepsilon = 0.01\npane = "1s"\nskew = "30d"'
    body += "\nbudget = 1e9"
    lines = list(check_text.lines(read(body, long), 100_000))
    assert max(map(len, lines)) <= 100


def test_a_file_is_checked(folder, capsys):
    write(folder, f"[queries.one]\n{ONE}\n[queries.two]\n{SEVERAL}")
    assert check.main(["--long"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines() if line and not line.startswith(" ")] == ["one", "two"]
    assert err == ""


def test_the_finals_of_a_file_are_summed(folder, capsys):
    """Each query has two finals and a provisional record every 10 s."""
    query = 'domain = 4\nepsilon = 1.0\npane = "10s"\nwindows = ["10s", "1m/10s"]\nbudget = 1e9\n'
    (folder / "hubbub.toml").write_text("".join(f"[queries.q{number}]\n{query}" for number in range(200)))
    assert check.main(["--long"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    seconds = 1.5 * costs.record(load(folder / "hubbub.toml")["q0"]) + costs.FINAL
    cores = costs.WORKER + 12 * costs.PARTITION + 40 * seconds
    assert f"40 finals per second. With few reports, a worker and its estimator use about {cores:.2g} of a core" in text
    assert f"which is {25 * cores:,.3g} ms of CPU per final" in text


def test_an_option_or_a_positional_file_takes_precedence_and_both_are_refused(folder, capsys, monkeypatch):
    for name in ("first", "second", "third"):
        write(folder, f"[queries.{name}]\n{ONE}", f"{name}.toml")
    monkeypatch.setenv("HUBBUB_QUERIES", "third.toml")
    for arguments, name in (
        (["first.toml"], "first"),
        (["--queries", "second.toml"], "second"),
        ([], "third"),
    ):
        assert check.main([*arguments, "--long"]) == 0
        assert capsys.readouterr().out.startswith(f"{name} ")

    with pytest.raises(SystemExit) as refusal:
        check.main(["first.toml", "--queries", "second.toml"])
    assert refusal.value.code == 2
    assert "--queries has no effect with the file first.toml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (ONE.replace("1.0", "17"), "queries.q.epsilon: must be a number above 0 and at most 16, got 17"),
        (
            'domain = 524281\noracle = "oue"\nepsilon = 1\npane = "10s"',
            "queries.q.oracle: oue: a report of 524281 values",
        ),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(folder, capsys, body, message):
    write(folder, f"[queries.q]\n{body}")
    assert check.main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"hubbub check: hubbub.toml: {message}")
    assert err.count("\n") == 1


def test_a_missing_file_is_named(folder, capsys):
    assert check.main(["nowhere.toml"]) == 2
    assert "nowhere.toml: cannot be read" in capsys.readouterr().err


def test_a_query_too_large_for_a_worker_is_refused_with_its_size(folder, capsys):
    write(folder, f'[queries.small]\n{ONE}\n[queries.large]\ndomain = {1 << 22}\nepsilon = 1.0\npane = "10s"')
    assert check.main(["--long", "--partitions", "2", "--max-state", "256MiB"]) == 2
    out, err = capsys.readouterr()
    assert "large  " in out
    assert err.startswith(
        "hubbub check: hubbub.toml: queries.large: a worker with 2 partitions needs 512.0 MiB for 8 open"
    )
    assert "above --max-state 256.0 MiB; lengthen the pane" in err
    assert err.count("\n") == 1
    assert check.main(["--partitions", "2", "--max-state", "1GiB"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--partitions", "0"],
        ["--partitions", "x"],
        ["--max-state", "much"],
        ["--wrong"],
        ["a", "b", "c"],
        ["q.toml", "q", "--long"],
    ],
)
def test_wrong_usage_exits_with_2(arguments):
    with pytest.raises(SystemExit) as error_info:
        check.main(arguments)
    assert error_info.value.code == 2


def test_clients_say_what_one_record_reveals():
    """The guarantee is that of 10,000 honest reports at epsilon 1. It is not beside the total of a lifetime."""
    query = read(ONE + 'windows = ["1m"]\nperiod = "1m"')
    lines = list(check_text.lines(query, 1, 20_000))
    text = " ".join(" ".join(lines).split())
    assert "one record A client's epsilon to somebody who sees this one record, and nothing else: " in text
    assert "nothing else: 60s 0.0531 (delta 1e-06, " in text
    assert "All windows of a round together: epsilon 3, odds of at most 20.1." in text.partition("one record")[0]
    assert "Whoever sees two windows learns the report of a person who changed, came or went." in text
    (place,) = (position for position, line in enumerate(lines) if line.startswith("  one record"))
    assert not any("guarantee" in line for line in lines[place - 1 : place + 4])
    assert "one record" not in " ".join(check_text.lines(query, 1))


def test_windows_of_several_periods_reveal_more_than_a_crowd_hides():
    query = read(ONE + 'windows = ["2m"]\nperiod = "1m"')
    assert "No record hides a client in its crowd" in " ".join(check_text.lines(query, 1, 20_000))


def test_help_has_an_example(capsys):
    with pytest.raises(SystemExit) as error_info:
        check.main(["--help"])
    assert error_info.value.code == 0
    text = capsys.readouterr().out
    assert "[queries.homepage]" in text
    assert "$ hubbub check hubbub.toml" in text


@pytest.mark.parametrize(
    ("clients", "sentence", "warnings"),
    [
        (90, "Windows that show values: 10s 0%, 60s 100%, all 17%", 1),
        (300, "a pane of 10 s has about 50 reports", 0),
        (600, "Windows that show values: 10s 100%, 60s 100%, all 100%", 0),
    ],
)
def test_clients_say_which_windows_show_values(clients, sentence, warnings):
    """The shares are those of even traffic and a crowd of 50. `all` follows the minute if a pane is too small."""
    query = read(ONE + 'windows = ["10s", "1m", "all"]')
    text = " ".join(" ".join(check_text.lines(query, 1, clients)).split())
    assert sentence in text
    assert ("`all` shows new values about every 60 s" in text) == (clients == 90)
    assert len([each for each in check_text.warnings(query, clients) if "fewer than crowd = 50" in each]) == warnings
    assert "shown" not in " ".join(check_text.lines(query, 1))


PLATFORMS = 'groups = { platform = ["ios", "android", "web"] }\n'


def test_more_groups_than_records_in_time_are_refused_with_both_numbers(folder, capsys):
    values = ", ".join(f'"v{number}"' for number in range(255))
    body = ONE.replace('"10s"', '"1s"') + 'windows = ["1s", "1m/1s", "all"]\n'
    write(folder, f"[queries.q]\n{body}groups = {{ version = [{values}] }}\n")
    assert check.main(["hubbub.toml"]) == 2
    seconds = 257 * 3 * (costs.record(load("hubbub.toml")["q"]) + costs.FINAL)
    text = f"queries.q: the records of 256 groups and their total take about {seconds:.3g} s for each pane of 1 s"
    assert text in capsys.readouterr().err
    assert seconds > 1
    write(folder, f"[queries.q]\n{body}{PLATFORMS}")
    assert check.main(["hubbub.toml"]) == 0


def test_groups_have_their_own_cells_and_records():
    plain = read(ONE)
    query = read(ONE + PLATFORMS)
    assert costs.finals(query) == 5 * costs.finals(plain)
    assert state_limit.worker_bytes(query, 12) > 4 * state_limit.worker_bytes(plain, 12)


@pytest.mark.parametrize(
    ("more", "clients", "text"),
    [
        ("", 1000, "of equal size, because there are no weights: 10s 0%, 60s/10s 0%."),
        ("", 600, "of equal size, because there are no weights: 10s 100% (ios, android, web), 60s/10s 0%."),
        (
            "weights = { ios = 0.6, android = 0.4 }\n",
            600,
            "with the shares of `weights`: 10s 40% (android), 60s/10s 0%.",
        ),
        ("weights = { ios = 0.9, android = 0.07, web = 0.03 }\n", 1000, "10s 10% (android, web), 60s/10s 3% (web)."),
        ("crowd = 1\n", 600, "10s 0%"),
    ],
)
def test_people_in_groups_below_the_crowd_are_counted(more, clients, text):
    query = read(ONE + 'windows = ["10s", "1m/10s", "all"]\n' + PLATFORMS + more)
    [line] = check_text.visibility.group_sentences(query, clients)
    assert text in line
    assert not list(check_text.visibility.group_sentences(read(ONE), clients))


def test_the_guarantee_of_a_huge_crowd_is_that_of_a_large_one_and_takes_no_longer(monkeypatch):
    query = make_query(domain=8, pane="1d", windows=["1d"], name="page")
    sizes = []
    monkeypatch.setattr(readers, "crowd_privacy", lambda *arguments: sizes.append(arguments[-1]))
    readers.guarantees(query, 10**6)
    readers.guarantees(query, 10**12)
    assert sizes == [10**6, readers.MOST_REPORTS]


EQUAL = 'domain = 4\nepsilon = 1.0\npane = "10s"\n'


@pytest.mark.parametrize(("count", "most"), [(1, 12), (2, 24), (3, 36), (200, 40)])
@pytest.mark.parametrize(
    "body", [EQUAL, GRR + 'windows = ["1m"]\nperiod = "10s"\ncrowd = 1\n', ONE + "other = false\n"]
)
def test_a_check_is_short_whatever_the_file(folder, capsys, count, most, body):
    (folder / "hubbub.toml").write_text("".join(f"[queries.q{number}]\n{body}" for number in range(count)))
    assert check.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= most
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("  budget       A client that answers ")
    assert any("a window of 10,000 reports shows" in line for line in lines[:4])
    assert sum(re.match(r"  q\d", line) is not None for line in lines) == min(count, check_table.ROWS)
    assert any(f"and {count - check_table.ROWS} more queries" in line for line in lines) == (count > check_table.ROWS)


def test_the_table_says_what_each_kind_of_answer_shows(folder, capsys):
    numbers = 'domain = { low = 0, high = 10, bins = 64 }\nepsilon = 1.0\npane = "1h"\n'
    names = 'domain = { discover = "text", length = 24 }\nepsilon = 2.0\npane = "1h"\n'
    write(
        folder, f"edition = 2\n[queries.a]\n{numbers}[queries.b]\n{names}[queries.c]\n{SEVERAL}\n[queries.d]\n{EQUAL}"
    )
    assert check.main(["--clients", "1000000"]) == 0
    text = capsys.readouterr().out
    for pattern in (
        r"a window of 1,000,000 people shows +epsilon +charge +crowd",
        r"a +quantiles to within 0\.\d+% in rank",
        r"b +names above \d",
        r"c +\w+: values above [\d.]+%, and 1 more",
        r"d +values above 0\.\d+%",
    ):
        assert re.search(pattern, text), pattern
    assert check.main(["--clients", "10"]) == 0
    assert re.search("d +nothing: fewer reports than `crowd`", capsys.readouterr().out)


def test_equal_warnings_are_printed_once_with_the_queries(folder, capsys):
    (folder / "hubbub.toml").write_text("".join(f"[queries.q{number}]\n{ONE}other = false\n" for number in range(7)))
    assert check.main([]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("other = false") == 1
    assert "warning q0, q1, q2, q3, q4 and 2 more: answer: other = false" in text


def test_the_name_of_a_query_prints_all_about_it(folder, capsys):
    write(folder, f"[queries.one]\n{ONE}\n[queries.two]\n{SEVERAL}")
    assert check.main(["--long"]) == 0
    long = capsys.readouterr().out
    for arguments in (["two"], ["hubbub.toml", "two"]):
        assert check.main(arguments) == 0
        text = capsys.readouterr().out
        assert text.startswith("two ")
        assert text in long
    assert check.main(["tow"]) == 2
    assert "there is no query 'tow'; did you mean 'two'?" in capsys.readouterr().err
