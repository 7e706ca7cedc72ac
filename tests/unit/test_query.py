"""The query file, with its meaning, its digests, and the messages about its faults."""

import datetime as dt
import re
import tomllib

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from oracles.errors import QueryError, ReportError
from oracles.query import Attribute, Query, load, parse
from oracles.query.domain import OTHER, Domain
from oracles.query.keys import KEYS
from oracles.query.settings import Threshold, Window
from tests.queries import make_query, make_table

FULL = """
[queries.homepage]
domain     = ["a.example", "b.example"]
oracle     = "olh"
epsilon    = 1.0
pane       = "10s"
windows    = ["10s", "1m/10s", "all"]
lateness   = "5s"
skew       = "1m"
period     = "1m"
from       = 2026-01-01
emit_every = "2s"
methods    = ["norm_sub", "calibrate"]
fallback   = "norm_sub"
publish    = 100
threshold  = "significance"
other      = true
sets       = { social = ["a.example"] }
require_id = false
family_error = 0.05
alerts_a_day = 1.0
max_ids    = 1000000
budget     = 4.0

[queries.profile]
attributes = { sex = ["f", "m"], age = 74, country = { file = "countries.txt" } }
solution   = "rsfd"
oracle     = "adaptive"
epsilon    = 1.0
pane       = "10s"
sets       = { country = { eu = ["de", "at"] } }
"""
ONE = 'domain = ["a", "b", "c"]\nepsilon = 1.0\npane = "10s"\n'
SEVERAL = 'attributes = { sex = ["f", "m"], age = 74 }\nepsilon = 1.0\npane = "10s"\nbudget = 100.0\n'


def read(body, name="q", folder="."):
    """Return the one query of a file with this body."""
    return parse(tomllib.loads(f"[queries.{name}]\n{body}"), "hubbub.toml", folder)[name]


def fault(body, folder="."):
    with pytest.raises(QueryError) as error:
        read(body, folder=folder)
    return str(error.value)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hubbub.toml").write_text(FULL)
    (tmp_path / "countries.txt").write_text("at\nch\nde\n")
    return tmp_path


def test_a_full_file_is_read_completely(folder):
    homepage = load(folder / "hubbub.toml")["homepage"]
    assert homepage.domain == Domain(("a.example", "b.example"), 3, other=True)
    assert homepage.oracle.name == "olh"
    assert homepage.oracle.size == 3
    assert homepage.epsilon == 1
    assert homepage.record_epsilon == 1
    assert homepage.windows == (Window("tumbling", 10, 10), Window("hopping", 60, 10), Window("all", 0, 0))
    assert homepage.pane == 10
    assert homepage.lateness == 5
    assert homepage.skew == 60
    assert homepage.period == 60
    assert homepage.starts == 1_767_225_600
    assert homepage.until is None
    assert homepage.emit_every == 2
    assert homepage.methods == ("norm_sub", "calibrate")
    assert homepage.fallback == "norm_sub"
    assert homepage.publish == 100
    assert homepage.threshold == Threshold("significance")
    assert homepage.sets == (("social", (0,)),)
    assert homepage.attributes == ()
    assert homepage.solution is None


def test_attributes_are_in_code_point_order(folder):
    profile = load(folder / "hubbub.toml")["profile"]
    assert [attribute.name for attribute in profile.attributes] == ["age", "country", "sex"]
    assert profile.attributes[1] == Attribute("country", Domain(("at", "ch", "de"), 4, other=True), (("eu", (0, 2)),))
    assert profile.oracle.sizes == (74, 4, 3)
    assert profile.oracle_names == profile.oracle.names
    assert profile.record_epsilon == profile.oracle.record_epsilon > profile.epsilon
    assert profile.domain is None
    assert profile.solution == "rsfd"
    assert profile.other is None


def test_missing_keys_have_defaults():
    query = read(ONE)
    assert query == read(
        ONE + 'oracle = "auto"\nlateness = "5s"\nskew = "1m"\nwindows = ["10s"]\nperiod = "10s"\nemit_every = "2s"\n'
        'methods = ["norm_sub"]\nfallback = "norm_sub"\npublish = 100\nthreshold = "significance"\nother = true\n'
        "sets = {}\nrequire_id = false\nfamily_error = 0.05\nalerts_a_day = 1.0\nmax_ids = 250000\nbudget = 4.0\n"
        'answers = "life"\n'
    )
    assert read(SEVERAL) == read(SEVERAL + 'solution = "smp"\noracle = "adaptive"\n')


@pytest.mark.parametrize(
    ("body", "key", "value"),
    [
        ('emit_every = "never"', "emit_every", None),
        ('publish = "all"', "publish", None),
        ("threshold = 0.01", "threshold", Threshold("share", 0.01)),
        ("threshold = { count = 1000 }", "threshold", Threshold("count", 1000)),
        ('windows = ["1m/10s", "2h", "all"]', "period", 7200),
        ('windows = ["all"]', "period", 10),
        ('windows = ["1m/1m"]', "windows", (Window("tumbling", 60, 60),)),
        ('lateness = "0s"\nskew = "1d"', "skew", 86_400),
        ("until = 2026-01-01T01:00:00+01:00", "until", 1_767_225_600),
        ("until = 2026-01-01T00:00:01", "until", 1_767_225_601),
        ("from = 1969-12-31", "starts", -86_400),
        ('sets = { x = ["c", "a", "(other)"] }', "sets", (("x", (0, 2, 3)),)),
        ('budget = 1\nanswers = "fresh"', "charges", 1),
        ("", "charges", 1),
        ("", "classes", 4),
        ("", "record_charge", 4.0),
        ('answers = "once"', "record_charge", 1.0),
        ('answers = "once"', "answers", "once"),
        ('renew = "1d"', "renew", 86_400),
        ('oracle = "olh"\nbuckets = 2', "buckets", 2),
        ('oracle = "olh"\nbuckets = 4', "buckets", None),
        ("", "renew", None),
        ("other = false", "other", False),
    ],
)
def test_every_key_can_be_set(body, key, value):
    assert getattr(read(f"{ONE}{body}"), key) == value


def test_a_budget_is_divided_by_its_decimals():
    assert read(ONE.replace("1.0", "0.1") + 'budget = 0.3\nanswers = "fresh"').charges == 3


def test_other_at_the_top_is_for_every_attribute():
    assert read(SEVERAL + "other = true").oracle.sizes == (75, 3)
    assert read(SEVERAL + "other = false").oracle.sizes == (74, 2)
    assert read(SEVERAL).other is None


def test_a_query_cannot_be_changed():
    with pytest.raises(AttributeError):
        read(ONE).epsilon = 2.0


def test_a_domain_names_its_values_and_finds_them():
    names = read(ONE).domain
    assert [names.name(position) for position in range(names.size)] == ["a", "b", "c", OTHER]
    assert [names.position(value) for value in ("a", "c", OTHER, "stranger", 1)] == [0, 2, 3, 3, 3]
    integers = read(ONE.replace('["a", "b", "c"]', "12")).domain
    assert integers.name(11) == "11"
    assert integers.position("11") == 11
    assert integers.position(11) == 11
    assert integers.size == 12


@pytest.mark.parametrize("value", ["12", "-1", "01", "1 ", "", "٣", "9" * 5000, OTHER, 12, -1, True])
def test_an_unknown_value_is_refused_by_a_domain_without_other(value):
    with pytest.raises(ReportError, match="not in the domain of 12 values"):
        Domain(None, 12, other=False).position(value)


@pytest.mark.parametrize("position", [-1, 12])
def test_a_position_outside_the_domain_has_no_name(position):
    with pytest.raises(ReportError, match="from 0 to 11"):
        Domain(None, 12, other=False).name(position)


@pytest.mark.parametrize("text", [b"at\nch", b"at\nch\n", b"at\r\nch\r\n", b"\xef\xbb\xbfat\nch\n"])
def test_a_domain_file_may_come_from_any_editor(tmp_path, text):
    (tmp_path / "values.txt").write_bytes(text)
    query = read('domain = { file = "values.txt" }\nepsilon = 1\npane = "1s"', folder=tmp_path)
    assert query.domain.values == ("at", "ch")


def test_lines_end_with_line_feeds_only(tmp_path):
    (tmp_path / "values.txt").write_text("a\u2028b\x0bc\nd\n", encoding="utf-8")
    query = read('domain = { file = "values.txt" }\nepsilon = 1\npane = "1s"', folder=tmp_path)
    assert query.domain.values == ("a\u2028b\x0bc", "d")


def test_sets_of_a_size_take_names_or_integers():
    table = 'domain = 12\nepsilon = 1\npane = "1s"\n'
    assert read(table + 'sets = { x = [11, "2"] }').sets == (("x", (2, 11)),)
    assert "got '2' twice" in fault(table + 'sets = { x = [2, "2"] }')


def test_digests_equal_those_of_clients():
    homepage = read('domain = ["a.example", "b.example"]\noracle = "olh"\nepsilon = 1\npane = "10s"', "homepage")
    assert homepage.canonical == (
        '{"domain":["a.example","b.example"],"epsilon":1.0,"format":1,"name":"homepage","oracle":"olh","other":true,'
        '"pane":10}'
    )
    assert homepage.digest.hex() == "e49ed91b111b507a"
    assert read(SEVERAL + 'solution = "rsfd"', "profile").digest.hex() == "80019b53012c779a"


def test_a_digest_is_over_unescaped_text():
    assert (
        '"domain":["ä","€","\\"","\\u0007"]'
        in read('domain = ["ä", "€", "\\"", "\\u0007"]\nepsilon = 1e-5\npane = "1s"').canonical
    )
    assert '"epsilon":1e-05' in read('domain = 3\nepsilon = 0.00001\npane = "1s"').canonical


@pytest.mark.parametrize(
    "same",
    [
        'pane = "10s"\n\n  epsilon = 1 # one\ndomain = ["a", "b",\n "c"]\n',
        ONE + "other = true",
        ONE + 'windows = ["1m/10s", "all"]\nlateness = "1h"\nskew = "0s"\nperiod = "1d"\nfrom = 2026-01-01',
        ONE + 'methods = ["base_cut"]\nfallback = "norm"\nthreshold = 0.5\npublish = "all"\nemit_every = "never"',
        ONE + 'sets = { x = ["a"] }\nrequire_id = true\nfamily_error = 0.5\nalerts_a_day = 9\nmax_ids = 1\nbudget = 9',
        ONE + 'answers = "once"\nrenew = "1d"',
        ONE + 'answers = "fresh"',
        ONE + 'oracle = "grr"',  # the choice of "auto"
    ],
)
def test_a_digest_stays_if_a_report_means_the_same(same):
    assert read(same).digest == read(ONE).digest


def test_every_change_of_meaning_has_a_digest_of_its_own():
    queries = [
        read(ONE),
        read(ONE, "p"),
        read(ONE.replace("1.0", "1.5")),
        read(ONE.replace("10s", "20s")),
        read(ONE.replace('"c"', '"d"')),
        read(ONE.replace('"a", "b"', '"b", "a"')),
        read(ONE + "other = false"),
        read(ONE + 'oracle = "oue"'),
        read(ONE.replace('["a", "b", "c"]', "3")),
        read(SEVERAL),
        read(SEVERAL + 'oracle = "olh"'),
        read(SEVERAL + 'solution = "spl"'),
        read(SEVERAL + 'solution = "rsfd"'),
        read(ONE + 'oracle = "olh"'),
        read(ONE + 'oracle = "olh"\nbuckets = 2'),
        read(SEVERAL + 'oracle = "hr"'),
        read(SEVERAL + 'oracle = "olh"\nbuckets = 2'),
        read(SEVERAL.replace("74", "75")),
        read(SEVERAL.replace("age", "years")),
        read(SEVERAL + "other = false"),
        read(SEVERAL.replace("}", ", zip = 9 }")),
    ]
    assert len({query.digest for query in queries}) == len(queries)


def test_the_order_in_which_attributes_are_written_changes_nothing():
    assert read(SEVERAL) == read(SEVERAL.replace('sex = ["f", "m"], age = 74', 'age = 74, sex = ["f", "m"]'))


@given(st.permutations([*ONE.splitlines(), 'windows = ["1m", "all"]', 'oracle = "ss"', "publish = 3"]))
def test_the_order_of_keys_changes_nothing(lines):
    assert read("\n".join(lines)) == read(ONE + 'oracle = "ss"\npublish = 3\nwindows = ["1m", "all"]')


A_DURATION = r'a duration such as "10s", "1m", "2h" or "1d"'
FAULTS = [
    # an addition to or change of a valid query, the wrong key, the valid range, the actual value
    ("epsilon = 0", "epsilon", "above 0 and at most 16", "0"),
    ("epsilon = 16.1", "epsilon", "above 0 and at most 16", "16.1"),
    ("epsilon = nan", "epsilon", "above 0 and at most 16", "nan"),
    ("epsilon = inf", "epsilon", "above 0 and at most 16", "inf"),
    ("epsilon = true", "epsilon", "above 0 and at most 16", "True"),
    ('epsilon = "1"', "epsilon", "above 0 and at most 16", "'1'"),
    ("epsilon = 0x" + "f" * 5000, "epsilon", "above 0 and at most 16", "too long to show"),
    ("epsilon = 1e-30", "oracle", "epsilon is too small", ""),
    ('pane = "0s"', "pane", "from 1s to", "'0s'"),
    ("pane = 10", "pane", A_DURATION, "10"),
    ('pane = "500ms"', "pane", A_DURATION, "'500ms'"),
    ('pane = "1.5m"', "pane", A_DURATION, "'1.5m'"),
    ('pane = "-1s"', "pane", A_DURATION, "'-1s'"),
    ('pane = "٣s"', "pane", A_DURATION, "'٣s'"),
    ('pane = "9999999999d"', "pane", "to 36500d", "'9999999999d'"),
    ('lateness = "soon"', "lateness", "from 0s to", "'soon'"),
    ('skew = "1w"', "skew", "from 0s to", "'1w'"),
    ('period = "0s"', "period", "from 1s to", "'0s'"),
    ('emit_every = "0s"', "emit_every", '"never"', "'0s'"),
    ("windows = []", "windows", "one or more", "[]"),
    ('windows = "10s"', "windows", "list", "'10s'"),
    ('windows = ["15s"]', "windows", "multiples of the pane (10s)", "'15s'"),
    ('windows = ["1m/15s"]', "windows", "multiples of the pane (10s)", "'1m/15s'"),
    ('windows = ["10s/1m"]', "windows", "STEP at most SIZE", "'10s/1m'"),
    ('windows = ["1m/"]', "windows", "SIZE/STEP", "'1m/'"),
    ('windows = ["0s"]', "windows", "multiples of the pane (10s)", "'0s'"),
    ('windows = ["1m/10s/10s"]', "windows", "SIZE/STEP", "'1m/10s/10s'"),
    ("windows = [10]", "windows", "SIZE/STEP", "10"),
    ('windows = ["60s", "1m"]', "windows", "without repeats", "'1m' twice"),
    ('windows = ["all", "all"]', "windows", "without repeats", "'all' twice"),
    ('from = "2026-01-01"', "from", "a date such as 2026-01-01", "'2026-01-01'"),
    ("from = 07:32:00", "from", "a date such as 2026-01-01", "07:32:00"),
    ("until = 2026-01-01T00:00:00.5", "until", "whole seconds", "2026-01-01 00:00:00.5"),
    ("until = 0001-01-01T00:00:00+23:00", "until", "a date such as 2026-01-01", "0001-01-01"),
    ("from = 2026-01-01\nuntil = 2026-01-01", "until", "later than from (2026-01-01)", "2026-01-01"),
    ("methods = []", "methods", "one or more", "[]"),
    ('methods = ["norm_sub", "norm_sub"]', "methods", "without repeats", "'norm_sub' twice"),
    ('methods = ["unbiased"]', "methods", "one of base_pos", "'unbiased'"),
    ('methods = ["base"]', "methods", "one of base_pos", "'base'"),
    ('fallback = "calibrate"', "fallback", "one of base_pos", "'calibrate'"),
    ("publish = 0", "publish", 'at least 1, or "all"', "0"),
    ("publish = 1.0", "publish", 'at least 1, or "all"', "1.0"),
    ("threshold = 1.0", "threshold", "above 0 and below 1", "1.0"),
    ("threshold = 0", "threshold", "above 0 and below 1", "0"),
    ('threshold = "high"', "threshold", '"significance"', "'high'"),
    ("threshold = {}", "threshold", "count = N", "{}"),
    ("threshold = { count = 0 }", "threshold.count", "at least 1", "0"),
    ("threshold = { coumt = 5 }", "threshold.coumt", "'count'", ""),
    ("other = 1", "other", "true or false", "1"),
    ('require_id = "yes"', "require_id", "true or false", "'yes'"),
    ("family_error = 0.0", "family_error", "above 0 and below 1", "0.0"),
    ("family_error = 1", "family_error", "above 0 and below 1", "1"),
    ("alerts_a_day = 0", "alerts_a_day", "above 0", "0"),
    ("alerts_a_day = inf", "alerts_a_day", "above 0", "inf"),
    ("max_ids = 0", "max_ids", "at least 1", "0"),
    ("max_ids = true", "max_ids", "at least 1", "True"),
    ("budget = 0.5", "budget", "at least the epsilon of one record (1.0)", "0.5"),
    ('oracle = "ohl"', "oracle", "one of grr, hr", "'ohl'"),
    ("oracle = 1", "oracle", "one of grr, hr", "1"),
    ('domain = 524281\noracle = "oue"', "oracle", "65535 bytes", ""),
    ('solution = "smp"', "solution", "attributes only", ""),
    ("attributes = { a = 3 }", "attributes", "domain", ""),
    ("sets = []", "sets", "a table", "[]"),
    ('sets = { "a b" = ["a"] }', "sets.'a b'", "1 to 64", ""),
    ("sets = { x = [] }", "sets.x", "one or more", "[]"),
    ('sets = { x = ["z"] }', "sets.x", "a value of the domain", "'z'"),
    ('sets = { x = [["a"]] }', "sets.x", "a value of the domain", "['a']"),
    ('sets = { x = ["a", "a"] }', "sets.x", "without repeats", "'a' twice"),
    ('domain = 7864257\noracle = "grr"\nanswers = "once"', "domain", "a tally can take 62,914,568 bytes", ""),
    ('domain = 4194305\noracle = "olh"', "domain", "a tally can take 67,109,376 bytes, more than 60 MiB", ""),
    ('domain = 2000000\nwindows = ["1m/10s"]', "windows", "can take 64,000,000 bytes", ""),
    ("domain = []", "domain", "one or more", "[]"),
    ("domain = 1", "domain", "from 2 to 4294967296", "1"),
    ("domain = 4294967296\nother = true", "domain", "from 2 to 4294967296", "4294967297"),
    ('domain = ["a"]\nother = false', "domain", "from 2 to", "1"),
    ("domain = 0", "domain", "a size from 1", "0"),
    ("domain = true", "domain", "a list of values", "True"),
    ('domain = "a"', "domain", "a list of values", "'a'"),
    ('domain = ["a", ""]', "domain", "neither empty nor", "''"),
    ('domain = ["a", "(other)"]', "domain", "neither empty nor", "'(other)'"),
    ('domain = ["a", 1]', "domain", "neither empty nor", "1"),
    ('domain = ["a", "a"]', "domain", "without repeats", "'a' twice"),
    ("domain = {}", "domain.file", "the path of a text file", "None"),
    ("domain = { file = 1 }", "domain.file", "the path of a text file", "1"),
    ('domain = { path = "x" }', "domain.path", "choose from file", ""),
    ('domain = { file = "nowhere.txt" }', "domain.file", "nowhere.txt cannot be read", "No such file"),
    ('domain = { file = "" }', "domain.file", "cannot be read", "directory"),
    ('domain = { file = "a\\u0000b" }', "domain.file", "cannot be read", "null"),
    ('domain = { file = "empty.txt" }', "domain.file", "one value a line", "no line"),
    ('domain = { file = "blank.txt" }', "domain.file", "blank.txt, line 2: must be", "''"),
    ('domain = { file = "other.txt" }', "domain.file", "other.txt, line 2: must be", "'(other)'"),
    ('domain = { file = "twice.txt" }', "domain.file", "twice.txt, line 3: every line must differ", "as in line 1"),
    ('domain = { file = "latin.txt" }', "domain.file", "latin.txt must be UTF-8", "byte 1"),
    ('answers = "often"', "answers", "one of life, once, fresh", "'often'"),
    ('renew = "15s"', "renew", "a multiple of the period (10s)", "15s"),
    ('period = "15s"', "period", "a multiple of the pane (10s)", "15s"),
    ("buckets = 4", "buckets", "full, olh, short, sub do", "'auto'"),
    ('oracle = "olh"\nbuckets = 3', "buckets", "a power of two from 2 to 2048", "3"),
    ('oracle = "olh"\nbuckets = 8', "buckets", "from 2 to 4, the best", "8"),
    ("epsilom = 1", "epsilom", "did you mean 'epsilon'?", ""),
    ("zzz = 1", "zzz", "choose from about, alerts_a_day, answers, attributes", ""),
]
FILES = {
    "empty.txt": b"",
    "blank.txt": b"a\n\nb\n",
    "other.txt": b"a\n(other)\n",
    "twice.txt": b"a\nb\na\n",
    "latin.txt": b"a\xe4\n",
}


def with_keys(body, change):
    """Return a body with some keys replaced or added."""
    keys = {line.split(" = ")[0] for line in change.splitlines()}
    lines = [line for line in body.splitlines() if line.split(" = ")[0] not in keys]
    return "\n".join([*lines, change])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("domains")
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(("change", "key", "valid", "got"), FAULTS)
def test_a_fault_names_file_key_and_valid_range(files, change, key, valid, got):
    message = fault(with_keys(ONE, change), files)
    assert message.startswith(f"hubbub.toml: queries.q.{key}: ")
    assert valid in message
    assert got in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("change", "key", "valid"),
    [
        ("attributes = {}", "attributes", "one or more attributes"),
        ("attributes = 3", "attributes", "a table"),
        ('attributes = { "a b" = 3 }', "attributes.'a b'", "1 to 64 of the characters"),
        ("attributes = { age = 1 }", "attributes.age", "from 2 to"),
        ("attributes = { a = 5000000, b = 5000000 }", "attributes", "more than 60 MiB"),
        ("attributes = { age = { file = 3 } }", "attributes.age.file", "the path of a text file"),
        ('solution = "rs"', "solution", "one of spl, smp, rsfd"),
        ('oracle = "oue_z"', "oracle", "adaptive"),
        ('solution = "rsfd"\noracle = "olh"', "oracle", "grr, oue_z, oue_r, sue_z"),
        ("oracle = 3", "oracle", "the name of an oracle"),
        ('sets = { agee = { x = ["1"] } }', "sets.agee", "did you mean 'age'?"),
        ("sets = { age = { x = [74] } }", "sets.age.x", "a value of the domain"),
        ('sets = { age = ["1"] }', "sets.age", "a table"),
    ],
)
def test_a_fault_in_attributes_does_too(change, key, valid):
    message = fault(with_keys(SEVERAL, change))
    assert message.startswith(f"hubbub.toml: queries.q.{key}: ")
    assert valid in message


WIDE = 'domain = 1024\nepsilon = 2.0\npane = "10s"\n'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            WIDE + 'oracle = "olh"',
            'K = 8 classes at an epsilon of 2 are 16; use budget = 16, or oracle = "olh" with buckets = 4, or eps',
        ),
        (
            WIDE + 'oracle = "grr"',
            'with buckets = 4, or epsilon = 0.0078125, or answers = "once" or "fresh"',
        ),
        (
            WIDE + 'oracle = "grr"',
            "K = 1,024 classes at an epsilon of 2 are 2048; use budget = 2048, or ",
        ),
        (WIDE + "budget = 3", '"life" charges at least 2 epsilon = 4, above the budget of 3; use budget = 4, or'),
        (WIDE + "budget = 3", "epsilon = 1.5, or answers"),
        (SEVERAL.replace("100", "4"), "K = 74 classes at an epsilon of 1 are 74"),
        (SEVERAL.replace("100", "4") + 'solution = "spl"', "K = 77 classes at an epsilon of 0.5 are 38.5"),
        (SEVERAL + 'solution = "rsfd"\nanswers = "life"', 'must be "once" or "fresh" for rsfd'),
    ],
)
def test_a_silencing_budget_is_refused_with_alternatives(body, text):
    message = fault(body)
    assert message.startswith("hubbub.toml: queries.q.answers: ")
    assert text in message


def test_the_epsilon_that_is_named_fits_and_one_a_little_larger_does_not():
    epsilon = float(re.search(r"or epsilon = ([0-9.]+)", fault(WIDE + 'oracle = "olh"\nbudget = 8'))[1])
    assert 1.0 < epsilon < 2.0
    read(WIDE.replace("2.0", str(epsilon)) + 'oracle = "olh"\nbudget = 8')
    fault(WIDE.replace("2.0", str(epsilon + 0.001)) + 'oracle = "olh"\nbudget = 8')


def test_auto_resolves_to_the_best_oracle_that_fits():
    assert read(WIDE).oracle_names == ("olh",)
    assert read(WIDE).buckets == 4
    assert read(WIDE + "budget = 100").oracle_names == ("olh",)
    assert read(WIDE + "budget = 100").buckets is None
    assert read(WIDE + "budget = 4").oracle_names == ("blh",)
    assert read(WIDE + 'answers = "once"').buckets is None
    assert "oracle" in read(WIDE).open
    assert "oracle" not in read(WIDE + 'oracle = "hr"').open


def test_an_active_definition_is_read_at_any_charge():
    table = tomllib.loads(SEVERAL.replace("100", "4") + 'solution = "rsfd"')
    assert make_query(table, standing=True).answers == "life"
    assert make_query(table).answers == "once"


def test_fewer_buckets_are_in_the_digest_by_attribute():
    spl = read(SEVERAL + 'solution = "spl"\noracle = "olh"\nbuckets = 2')
    assert spl.buckets is None, "two are the best for epsilon/2"
    assert spl.digest == read(SEVERAL + 'solution = "spl"\noracle = "olh"').digest
    smp = read(SEVERAL + 'oracle = "olh"\nbuckets = 2')
    assert smp.buckets == {"age": 2, "sex": 2}
    assert '"buckets":{"age":2,"sex":2}' in smp.canonical


def test_the_digest_with_buckets_is_that_of_the_wire_format():
    body = 'domain = 1024\nepsilon = 2.0\noracle = "olh"\nbuckets = 2\npane = "10s"'
    assert read(body, "screens").digest.hex() == "1de4741cdcb12f2d"


def test_a_round_begins_at_a_multiple_of_renew():
    query = read(ONE + 'renew = "1h"')
    assert [query.round(moment) for moment in (0, 3599.9, 3600, 7199)] == [0, 0, 3600, 3600]
    assert read(ONE).round(1e9) == 0


@pytest.mark.parametrize("key", ["domain", "epsilon", "pane"])
def test_a_key_without_a_default_is_required(key):
    body = "\n".join(line for line in ONE.splitlines() if not line.startswith(key))
    assert re.match(rf"hubbub\.toml: queries\.q\.{key}: is missing; it must be ", fault(body))


@pytest.mark.parametrize(
    ("text", "key", "valid"),
    [
        ("", "queries", "one or more tables [queries.NAME]"),
        ("queries = {}", "queries", "one or more tables [queries.NAME]"),
        ("queries = 3", "queries", "a table"),
        ("queries.q = 3", "queries.q", "a table"),
        ("[query.q]\n" + ONE, "query", "did you mean 'queries'?"),
        ('[queries."a b"]\n' + ONE, "queries.'a b'", "1 to 64 of the characters A-Z a-z 0-9 _ . -"),
        ('[queries.""]\n' + ONE, "queries.''", "1 to 64"),
        (f"[queries.{'q' * 65}]\n{ONE}", f"queries.{'q' * 65}", "1 to 64"),
    ],
)
def test_a_fault_above_the_queries_is_named(text, key, valid):
    with pytest.raises(QueryError) as error:
        parse(tomllib.loads(text), "hubbub.toml", ".")
    assert str(error.value).startswith(f"hubbub.toml: {key}: ")
    assert valid in str(error.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"[queries.q\n", "must be TOML: .* line 1"),
        (b"a = 1\na = 2\n", "must be TOML: .* line 2"),
        (b"a = 1" + b"0" * 5000, "must be TOML: "),
        (b"a = " + b"[" * 5000, "must be TOML: "),
        (b"a = 'b\xff'", "must be UTF-8 text, but its byte 6 is not"),
        (None, "cannot be read: No such file or directory; `hubbub init` writes a query file"),
    ],
)
def test_a_file_that_is_no_toml_is_named(tmp_path, content, text):
    path = tmp_path / "hubbub.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(QueryError, match=f"^{re.escape(str(path))}: {text}"):
        load(path)


def test_a_folder_is_no_query_file(tmp_path):
    with pytest.raises(QueryError, match="cannot be read: "):
        load(tmp_path)


JUNK = st.recursive(
    st.one_of(
        st.none() | st.booleans() | st.integers() | st.floats(),
        st.text(max_size=8),
        st.dates() | st.datetimes() | st.times() | st.datetimes(timezones=st.just(dt.UTC)),
        st.sampled_from(["10s", "1m/10s", "all", "never", "auto", "olh", "ss", "smp", "norm_sub", "(other)", "a", "1"]),
        st.sampled_from([1, 2, 1.0, 0.05, 1e-20]),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.just("file"), inner, max_size=3)
    ),
    max_leaves=6,
)
ALL_KEYS = [key.name for key in KEYS]
DOMAINS = [{"domain": ["a", "b"]}, {"domain": 1 << 30}, {"attributes": {"x": 3, "y": ["a"]}, "solution": "rsfd"}]
QUERY = st.builds(
    lambda counted, epsilon, junk: make_table(epsilon=epsilon) | counted | junk,
    st.sampled_from(DOMAINS),
    st.sampled_from([1, 0.5, 16.0]),
    st.dictionaries(st.sampled_from(ALL_KEYS), JUNK, max_size=1),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.text(max_size=3), JUNK)
    | st.fixed_dictionaries({"queries": st.dictionaries(st.just("q"), QUERY)})
)
@example({"queries": {"q": make_table(domain=["\ud800", "a"])}})
@example({"queries": {"q": make_table(domain=10**400)}})
def test_junk_gives_queries_or_a_query_error(mapping):
    try:
        queries = parse(mapping, "hubbub.toml", "/nowhere")
    except QueryError as error:
        text = str(error)
    else:
        assert all(isinstance(query, Query) and len(query.digest) == 8 for query in queries.values())
        return
    assert text.startswith("hubbub.toml: ")
    assert len(text.splitlines()) == 1


ONE_CODE_POINT, TWO_CODE_POINTS = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(("value", "answer"), [(ONE_CODE_POINT, TWO_CODE_POINTS), (TWO_CODE_POINTS, ONE_CODE_POINT)])
def test_composed_and_decomposed_accents_are_one_answer(value, answer):
    query = read(f'domain = ["{value}", "tea"]\nepsilon = 1.0\npane = "10s"\nsets = {{ hot = ["{answer}"] }}')
    assert query.domain.position(answer) == query.domain.position(value) == 0
    assert query.domain.name(0) == value
    assert query.sets == (("hot", (0,)),)
    other_query = read(f'domain = ["{answer}", "tea"]\nepsilon = 1.0\npane = "10s"')
    assert query.digest != other_query.digest  # each belongs to its own text


@pytest.mark.parametrize("place", [False, True])
def test_two_values_that_are_one_in_normal_form_are_a_fault(place, tmp_path):
    (tmp_path / "values.txt").write_text(f"{ONE_CODE_POINT}\ntea\n{TWO_CODE_POINTS}\n", encoding="utf-8")
    domain = '{ file = "values.txt" }' if place else f'["{ONE_CODE_POINT}", "tea", "{TWO_CODE_POINTS}"]'
    message = fault(f'domain = {domain}\nepsilon = 1.0\npane = "10s"', tmp_path)
    assert "normal form C" in message
    assert "'cafe\\u0301' twice" in message
