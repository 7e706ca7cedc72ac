"""Plain words and paragraphs. Few sentences are hard, few names say nothing, and code has paragraphs and reasons."""

import ast
import re
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from tests.paragraphs import events, measures

ROOT = Path(__file__).parents[2]
PACKAGES = ("oracles", "hubbub", "producers", "aggregator")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "deploy").rglob("*.md"))

LONGEST = 26
"""Words of a sentence, which one in ten may exceed."""
SHORTEST = 4
"""Words below which a text is a label and no sentence."""
WORST = 10

_AFTER_BE = r"asked|drawn|found|given|had|held|kept|known|left|let|lost|made|meant|put|read|said|seen|sent|shown"
_AFTER_BE += r"|taken|told|written|\w+ed"
PATTERNS = {
    "where": re.compile(r"^(Where|Who|Whoever|What|Whatever)\b|(?<!^)\b[Ww]here\b"),
    "nominal": re.compile(r"(?<!^)\b(what|whoever|whatever)\b", re.IGNORECASE),
    "passive": re.compile(rf"\b(is|are|was|were|be|been)\s+((not|never|only)\s+)?({_AFTER_BE})\b", re.IGNORECASE),
    "two thoughts": re.compile(r"[;:]\s+\w"),
    "cut reason": re.compile(r"^(So|Then|Otherwise)\b"),
    "long": re.compile(rf"^(\S+\s+){{{LONGEST}}}\S"),
}
BARS = {"where": 0.03, "nominal": 0.02, "passive": 0.22, "two thoughts": 0.20, "cut reason": 0.02, "long": 0.10}
"""The largest share of sentences with each pattern."""

PARTICIPLE = re.compile(
    r"asked|begun|borne?|bought|bound|broken|brought|built|caught|chosen|come|dealt|done|drawn|driven|due|eaten|fallen|"
    r"fed|felt|forgotten|found|frozen|given|gone|grown|had|heard|held|hidden|hung|kept|known|laid|learnt|led|left|lent|"
    r"lit|lost|made|meant|met|paid|proven|risen|said|seen|sent|shown|shut|sold|sought|spent|spoken|stolen|stood|struck|"
    r"stuck|sworn|taken|taught|thrown|told|torn|understood|won|worn|written|[a-z]+ed"
)
"""Participles, except words that are nouns or verbs too: cast, cut, hit, let, put, read, run, set, split, spread."""
NOUN = re.compile(r"(b|br|cr|d|emb|f|n|r|s|sh|shr|sl|sp|st|w)eed|bed|bound|embed|hundred|red|shed|shred|sled")
CONTRACT = {
    *("calibrated", "counted", "covered", "decided", "due", "embedded", "expected", "lengthened", "listed", "lost"),
    *("moved", "pinned", "proved", "published", "refused", "rejected", "retired", "sampled", "simulated", "spent"),
    *("misplaced", "stopped", "unbiased"),
}
"""Participles that outside programs know: keys of records, files and answers, keywords and attributes of Python."""
NAMES_BAR = 0.003
"""The largest share of variables and parameters whose name is a participle."""


def sentences(text):
    """Return the sentences of a paragraph, with code as one word each."""
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = " ".join(re.sub(r"\*+|(?<!\w)_+|_+(?!\w)", "", text).split())
    parts = re.split(r'(?<=[.!?])\s+(?=[A-Z"(])', text)
    return [sentence for sentence in parts if len(sentence.split()) >= SHORTEST]


def page_sentences(path):
    """Return the sentences of a page without code, tables and headings."""
    text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"```.*?```|<!--.*?-->", "\n\n", text, flags=re.DOTALL)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) |#)", text)
    prose = [re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", block) for block in blocks if not re.match(r"\s*[|#!<]", block)]
    return [sentence for block in prose for sentence in sentences(block)]


def docstrings(module):
    """Yield the texts of a module that document a module, a class, a function, or the assignment before them."""
    for node in ast.walk(module):
        body = getattr(node, "body", None)
        for index, statement in enumerate(body if isinstance(body, list) else []):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if is_text and isinstance(statement.value.value, str):
                before = body[index - 1] if index else node
                if index == 0 or isinstance(before, ast.Assign | ast.AnnAssign):
                    yield statement.value.value


def source_sentences(path):
    """Return the sentences of a module's docstrings, without examples, lists and drawings."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    paragraphs = chain.from_iterable(re.split(r"\n\s*\n", text) for text in docstrings(module))
    # Examples, drawings, lists and tables are no sentences.
    prose = [
        paragraph
        for paragraph in paragraphs
        if not re.search(r">>>|├|^\s*\$ ", paragraph) and not re.match(r"\s*[-*|#]", paragraph)
    ]
    return [sentence for paragraph in prose for sentence in sentences(paragraph)]


TEXTS = {
    "docs": (PAGES, page_sentences),
    "docstrings": (SOURCES, source_sentences),
    "docstrings of tests": (TESTS, source_sentences),
}
MODULES = {"product": SOURCES, "tests": TESTS}


def worst(counts):
    return "\n".join(f"{count:6}  {path.relative_to(ROOT)}" for path, count in counts.most_common(WORST))


@pytest.fixture(scope="module", params=TEXTS)
def texts(request):
    paths, read = TEXTS[request.param]
    return {path: read(path) for path in paths}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_few_sentences_are_hard_to_read(texts, pattern):
    search = PATTERNS[pattern].search
    matches = {path: [text for text in own_texts if search(text)] for path, own_texts in texts.items()}
    counts = Counter({path: len(hits) for path, hits in matches.items() if hits})
    share = counts.total() / sum(map(len, texts.values()))
    examples = "\n".join(f"  {matches[path][0]}" for path, _ in counts.most_common(WORST))
    assert share <= BARS[pattern], f"{pattern}: {share:.1%} of sentences, most in\n{worst(counts)}\nsuch as\n{examples}"


def bindings(module):
    """Yield the names of the variables and parameters of a module."""
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def is_participle(name):
    word = name.strip("_").lower()
    return bool(PARTICIPLE.fullmatch(word)) and not NOUN.fullmatch(word) and word not in CONTRACT


@pytest.mark.parametrize("part", MODULES)
def test_few_variables_have_a_participle_as_name(part):
    names = {path: list(bindings(ast.parse(path.read_text(encoding="utf-8")))) for path in MODULES[part]}
    matches = {path: [name for name in own_names if is_participle(name)] for path, own_names in names.items()}
    counts = Counter({path: len(hits) for path, hits in matches.items() if hits})
    share = counts.total() / sum(map(len, names.values()))
    words = Counter(chain.from_iterable(matches.values())).most_common(2 * WORST)
    assert share <= NAMES_BAR, (
        f"{share:.2%} of {sum(map(len, names.values())):,} names, most in\n{worst(counts)}\n{words}"
    )


CODE = {"product": SOURCES, "tests": TESTS, "benchmarks": sorted((ROOT / "benchmarks").rglob("*.py"))}
PARAGRAPHS = {
    "functions without a blank line": 0.40,
    "assignments with several acts": 0.02,
    "dense idioms a line": 0.002,
    "empty names": 0.02,
}
"""The largest share of each measure in the product. Tests and benchmarks may have twice as much."""
COMMENTS = {"product": 0.02, "tests": 0.008, "benchmarks": 0.008}
"""The smallest number of comments for each line."""


@pytest.mark.parametrize("part", CODE)
def test_code_has_paragraphs_reasons_and_names(part):
    factor = 1 if part == "product" else 2
    shares = measures(CODE[part])
    assert shares.pop("comments a line") >= COMMENTS[part]
    excess = {measure: share for measure, share in shares.items() if share > factor * PARAGRAPHS[measure]}
    assert excess == {}


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("a, b = 1, 2", "several acts"),
        ("a = b = 1", "several acts"),
        ("f(*(1, 2))", "idiom"),
        ("f(**(x if y else {}))", "idiom"),
        ("a = {**(x if y else {})}", "idiom"),
        ("a = [x for y in z for x in y]", "idiom"),
        ("a = 1 if x else 2 if y else 3", "idiom"),
        ("a = (x, y) == z", "idiom"),
        ("a += 1 if x else 2", "idiom"),
        ("a = 'text' * x", "idiom"),
        ("if (a := f()): pass", "idiom"),
        ("for a in x if y else z: pass", "idiom"),
        ("for each in x: pass", "empty name"),
        ("def f(first): pass", "empty name"),
        ("a = 1  # why", "comment"),
        ("def f():\n" + "    a()\n" * 12, "dense function"),
    ],
)
def test_a_dense_form_is_counted(line, event):
    assert event in list(events(line))


@pytest.mark.parametrize(
    "line",
    [
        "a, b = f()",
        "a = 'text' * 3",
        "a = [x for x in y]",
        "def f(self, other): pass",
        "a = 1  # noqa: E501",
        "def f():\n    'Text.'\n" + "    a()\n" * 11,
        "def f():\n" + "    a()\n" * 6 + "\n" + "    a()\n" * 6,
    ],
)
def test_a_plain_form_is_not_counted(line):
    assert {*events(line)} <= {"line", "assignment", "name", "function"}


@pytest.mark.parametrize(
    ("sentence", "pattern"),
    [
        ("Where no broker answers, the process exits.", "where"),
        ("The process exits where no broker answers.", "where"),
        ("What is unreadable gets a count.", "where"),
        ("The board counts what it cannot read.", "nominal"),
        ("The board skips whatever it cannot read.", "nominal"),
        ("Unreadable records are not counted by the board.", "passive"),
        ("The record was never written to the topic.", "passive"),
        ("The board skips a record: nobody can read it.", "two thoughts"),
        ("The board waits; the worker goes on.", "two thoughts"),
        (" ".join(["word"] * (LONGEST + 1)), "long"),
    ],
)
def test_a_pattern_finds_its_sentence(sentence, pattern):
    assert PATTERNS[pattern].search(sentence)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_pattern_finds_a_plain_sentence(pattern):
    for sentence in ("If no broker answers for 300 s, the process exits with code 3.", " ".join(["word"] * LONGEST)):
        assert not PATTERNS[pattern].search(sentence)


def test_participles_are_told_from_nouns():
    assert all(map(is_participle, ["said", "_known", "found", "shuffled", "Packed", "left"]))
    assert not any(map(is_participle, ["text", "seed", "speed", "result", "set", "read", "known_ids", "size"]))


PAGE = """
# A heading of four words

The worker reads `a: b` from [the topic](topics.md). It counts each of them.
- The first point has words.
- The second point has words.

| a table: of words | and more |

```
code: it has no sentence
```
"""
MODULE = '''
"""A module of four words."""

LIMIT = 1
"""The limit of all things."""

def f():
    """Return one of four words.

    >>> f(): an example
    """
'''


def test_pages_are_read_without_code_and_tables(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert page_sentences(page) == [
        "The worker reads X from the topic.",
        "It counts each of them.",
        "The first point has words.",
        "The second point has words.",
    ]


def test_docstrings_are_read_without_examples(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(MODULE)
    assert source_sentences(module) == [
        "A module of four words.",
        "The limit of all things.",
        "Return one of four words.",
    ]
