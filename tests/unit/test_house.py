"""The rules of the tree. Paths in documents exist, modules are named by nouns, and names are unique."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import hubbub
from hubbub.__main__ import COMMANDS
from oracles.consistency import METHODS
from tests.kinds import kinds_of

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/**/*.md")]
ROOMS = ("aggregator", "oracles", "producers", "hubbub", "benchmarks", "deploy", "docs", "helm", "tests")
WORD = re.compile(rf"(?<![\w/.-])(?:{'|'.join(ROOMS)})/[\w./-]*\w")
FENCE = re.compile(r"^ *```.*", re.MULTILINE)
PLACEHOLDER = re.compile(r"\b(NAME|VERSION)\b|^deploy/secrets\b")
"""Paths of a reader, such as the file of a new oracle, a later version, or the operator's own secrets."""

MOST_BRANCHING = 43
"""Most files of the product that branch on a kind of answer. Their number may fall, and then the bar falls with it."""
PRODUCT = {
    path: ast.parse(path.read_text(encoding="utf-8")) for room in ROOMS[:4] for path in ROOT.glob(f"{room}/**/*.py")
}


def named(page):
    """Return the paths in the text of a page. The heading of a code block may name a new file."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return sorted({word for word in WORD.findall(text) if not PLACEHOLDER.search(word)})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page):
    assert [word for word in named(page) if not (ROOT / word).exists()] == []


def test_paths_are_found_where_they_are_named():
    assert "aggregator/board/server/route.py" in named(ROOT / "CONTRIBUTING.md")
    assert WORD.findall("see `oracles/gone.py`, and hubbub/.") == ["oracles/gone.py"]


def test_every_public_name_has_its_type():
    stub = ast.parse((ROOT / "hubbub/__init__.pyi").read_text(encoding="utf-8"))
    names = {alias.asname: node.module for node in stub.body for alias in node.names}
    assert names == {name: home for name, (home, _) in hubbub._HOMES.items()}
    assert sorted(names) == hubbub.__all__


def test_the_name_of_a_method_is_only_in_its_row():
    def typed(module):
        listed = {
            text
            for node in module.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            for text in ast.walk(node.value)
        }
        return {
            node.value
            for node in ast.walk(module)
            if isinstance(node, ast.Constant) and node not in listed and node.value in METHODS
        }

    assert {path.name: methods for path, module in PRODUCT.items() if (methods := typed(module))} == {
        "table.py": {*METHODS},
        "__init__.py": {"calibrate"},  # the function of that name, at the front door
    }


PARTICIPLE = re.compile(r"\w+ed|\w+ing")


def words(text):
    return frozenset(text.split())


PARTICIPLES = words("""
begun bought bound built chosen done drawn due found given gone grown held hidden kept known left lost made meant met
paid read said seen sent set shown spent stood taken told understood worn written
""")
NOUNS = words("binding embedded feed fitting framing hashing listing logging packing routing seed set speed timing")
"""Nouns of the field that look like participles, and the embedded broker."""
ADVERBS = words("again ahead apart aside away back before behind beside early late later meanwhile soon together")
VERBS = words("""
accept add admit adopt advertise analyse append apply begin bring build calculate choose classify clean close compare
compute create decide decode delete describe deliver detect encode end explain expire fetch follow forge forget get
give identify install join keep leave let make merge observe open parse perturb prepare prove publish read recall
receive recover refuse register remember remove render retire rise send serve sift solve spill take tell think throw
wait weigh write
""")
"""Verbs that are no nouns of the field: `store`, `estimate` and `watch` may be both."""


def modules():
    """Return the paths of the product's modules that have a name of their own."""
    return [path for path in PRODUCT if not path.stem.startswith("__")]


def head(path):
    """Return the last word of a module's name, the kind of thing that it is."""
    return path.stem.strip("_").rpartition("_")[2]


def test_a_module_is_named_by_a_noun():
    """`simulate.py` and others may have the name of their command."""
    wrong = PARTICIPLES | ADVERBS | VERBS
    assert [
        str(path.relative_to(ROOT))
        for path in modules()
        if (head(path) in wrong or PARTICIPLE.fullmatch(head(path))) and head(path) not in NOUNS | {*COMMANDS}
    ] == []


def test_no_two_classes_share_a_name():
    homes = defaultdict(list)
    for path, module in PRODUCT.items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(ROOT)))
    repeats = {name: paths for name, paths in homes.items() if len(paths) > 1}
    assert repeats == {}


SAME_JOB = {
    "command": "what `hubbub NAME` starts, one for each command",
    "entropy": "random bytes: of the system, and of a device key",
    "errors": "the exceptions of a package",
    "findings": "what a window shows: its values, and how they are found",
    "follower": "reads a topic from its beginning and goes on",
    "group": "the workers of a prefix as one group: its members at the brokers, and its partitions here",
    "keys": "the keys that something has, one place for each kind: a query file, the topics of counts",
    "metrics": "the metrics of a process, one for each kind of process",
    "rows": "the members of JSON objects: of records, and of the board's answers",
    "server": "a port for HTTP: its limits, the board's routes, the gateway's routes",
    "settings": "checked values that a user sets: of a query, and of Kafka",
    "status": "the present state: of a query, and of a delivery",
    "table": "something as a table: records, an overview, a definition",
    "tally": "counts of reports: with and without Kafka",
    "words": "texts: of flags, and of a simulated crowd",
}
"""Names that several modules have, since they do the same thing in several places."""


def test_two_modules_share_a_name_only_if_they_do_the_same_thing():
    homes = defaultdict(list)
    for path in modules():
        # A kind of answer has a module of its name at each stage.
        if path.parent.name != "kinds":
            homes[path.stem].append(str(path.relative_to(ROOT)))
    repeats = {name: paths for name, paths in homes.items() if len(paths) > 1}
    assert {name: paths for name, paths in repeats.items() if name not in SAME_JOB} == {}
    assert SAME_JOB.keys() <= repeats.keys()


def branching_files():
    """Return the product's files that branch on a kind of answer, each with its kinds."""
    scripts = [path for room in ROOMS[:4] for path in ROOT.glob(f"{room}/**/*.js")]
    kinds = {str(path.relative_to(ROOT)): kinds_of(path) for path in [*PRODUCT, *scripts]}
    return {name: own_kinds for name, own_kinds in kinds.items() if own_kinds}


def test_few_files_branch_on_a_kind(record_property):
    """A new kind of answer is a module at each stage. Each further file that branches is one more to open for it."""
    files = branching_files()
    record_property("note", f"{len(files)} files branch on a kind of answer")
    assert {name: kinds for name, kinds in files.items() if len(kinds) >= 4} == {}
    assert len(files) <= MOST_BRANCHING


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("edges = None if domain.scale is None else domain.scale.edges", {"numbers"}),
        ("if record.kind == NUMBERS: pass", {"numbers"}),
        ("if isinstance(findings, WithheldFindings | NameFindings): pass", {"names", "withholding"}),
        ('if fields["discover"] is not None and query.get("groups") is None: pass', {"names", "groups"}),
        ("reason = part.withheld\nif part.withheld: pass", {"withholding"}),
        ("kind = KINDS[domain.kind]\nscale = domain.scale\nisinstance(request, JoinGroupRequest)", set()),
    ],
)
def test_a_branch_on_a_kind_is_recognised(text, kinds, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(text, encoding="utf-8")
    assert kinds_of(path) == kinds


def code_lines(text):
    """Return the number of lines with code. Comments, docstrings and blank lines do not count."""
    lines = {
        number for number, line in enumerate(text.split("\n"), 1) if line.strip() and not line.lstrip().startswith("#")
    }
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        # A long text may have blank lines, and lines that look like comments.
        if isinstance(node, ast.Constant | ast.JoinedStr):
            lines.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, node.end_lineno + 1))
    return len(lines - docstrings)


def test_lines_of_code_are_counted_without_comments_and_docstrings():
    assert (
        code_lines('"""A module."""\n\n# why\nx = """\ntext"""\n\n\ndef f():\n    """Return 1."""\n    return 1\n') == 4
    )


def test_all_code_is_counted(record_property):
    """The number of lines of code is part of the summary that pytest prints."""
    folders = {"product": ROOMS[:4], "tests": ("tests",), "benchmarks": ("benchmarks",)}
    counts = {}
    for part, rooms in folders.items():
        paths = [path for room in rooms for path in ROOT.glob(f"{room}/**/*.py")]
        counts[part] = sum(code_lines(path.read_text(encoding="utf-8")) for path in paths)

    parts = ", ".join(f"{part} {count:,}" for part, count in counts.items())
    record_property("note", f"lines of code: {parts}, together {sum(counts.values()):,}")
    assert all(counts.values())


SCRIPTS = [
    path
    for path in [*ROOT.glob("aggregator/**/*.js"), *ROOT.glob("clients/*/src/**/*.[jt]s")]
    if "vendor" not in str(path)
]
"""Our own scripts, which nothing generates."""
MOST_LOCALS = 25
LONGEST_LINE = 150
FUNCTION = re.compile(
    r"^(?P<indent> *)(?:(?:export|async|static) )*(?:function )?[#\w]+\((?P<parameters>[^\n]*)\)(?:: [^\n]*)? \{\n"
    r"(?P<body>.*?)^(?P=indent)\}",
    re.MULTILINE | re.DOTALL,
)
BINDING = re.compile(r"\b(?:const|let|var) (\{.*?\}|\[.*?\]|\w+)(?= =|;| of| in)", re.DOTALL)
BOUND = re.compile(r"[A-Za-z_$][\w$]*(?=\s*(?:[,}\])=]|$))")


def local_counts(script):
    """Yield the number of local names of each function and method of a script, those of inner functions included."""
    for match in FUNCTION.finditer(script):
        bindings = [match["parameters"], *BINDING.findall(match["body"])]
        yield len({name for binding in bindings for name in BOUND.findall(binding)})


def test_local_names_of_a_script_are_counted():
    script = "export class Page {\n  #show(query, { size: n }) {\n    const [a, b] = n;\n    let c = 1;\n  }\n}\n"
    assert [*local_counts(script)] == [5]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_lines_and_functions_of_a_script_are_short(path):
    script = path.read_text(encoding="utf-8")
    assert [line for line in script.splitlines() if len(line) > LONGEST_LINE] == []
    assert max(local_counts(script), default=0) <= MOST_LOCALS
