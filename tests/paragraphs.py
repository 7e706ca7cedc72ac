"""How dense code is: functions without paragraphs, comments, lines with several acts, dense idioms, and empty names."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LONG = 12
"""Lines of a body, without its docstring, from which on a function needs a blank line."""
DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma|fmt:|ruff:|pylint|mypy|isort|pyright|!|-\*-)", re.IGNORECASE)
"""A comment for a tool, which tells a reader nothing."""


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


EMPTY_NAMES = words("""
each one other others its own both every many few most least some another two either rest those these it them same
all_ none any_ such at of before after since through until now near away apart there here inside outside around
ahead behind beyond early late later again over under above below off on_ in_ by_ along beside between within
without earlier then when where good bad wrong right whole small large long short quiet slow fast new old odd fresh
usual visible big full empty wide narrow first last newest oldest largest smallest current single common simple
""")
"""Pronouns, prepositions, adverbs and bare adjectives, which as a whole name do not say what the thing is."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def measures(paths: list[Path]) -> dict[str, float]:
    """Return the measures of some modules together."""
    counts: Counter[str] = Counter()
    for path in paths:
        counts.update(events(path.read_text(encoding="utf-8")))

    return {
        "functions without a blank line": counts["dense function"] / max(1, counts["function"]),
        "comments a line": counts["comment"] / max(1, counts["line"]),
        "assignments with several acts": counts["several acts"] / max(1, counts["assignment"]),
        "dense idioms a line": counts["idiom"] / max(1, counts["line"]),
        "empty names": counts["empty name"] / max(1, counts["name"]),
    }


def events(text: str) -> Iterator[str]:
    """Yield a word for each thing that counts."""
    lines = text.splitlines()
    yield from ["line"] * len(lines)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            yield "comment"

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            yield from function_events(node, lines)
        if isinstance(node, ast.Assign):
            yield "assignment"
            if has_several_acts(node):
                yield "several acts"
        if is_dense(node):
            yield "idiom"
        name = name_of(node)
        if name is not None:
            yield "name"
            if name in EMPTY_NAMES or name.strip("_").lower() in EMPTY_NAMES:
                yield "empty name"


def function_events(node: Function, lines: list[str]) -> Iterator[str]:
    body = node.body if ast.get_docstring(node, clean=False) is None else node.body[1:]
    if not body or (node.end_lineno or 0) - body[0].lineno + 1 < LONG:
        return
    yield "function"
    if all(line.strip() for line in lines[body[0].lineno - 1 : node.end_lineno]):
        yield "dense function"


def has_several_acts(node: ast.Assign) -> bool:
    """Whether an assignment is chained or parallel. A swap counts too, but a returned tuple does not."""
    is_parallel = isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)
    return is_parallel or len(node.targets) > 1


def name_of(node: ast.AST) -> str | None:
    """Return the name of a new variable or parameter. The parameter `other` of an operator is usual."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
        return "" if node.arg == "other" else node.arg
    return None


def is_dense(node: ast.AST) -> bool:
    """Whether a node is an idiom that a reader has to take apart."""
    match node:
        case ast.NamedExpr():
            return True
        case ast.Starred(value=ast.Tuple() | ast.List() | ast.IfExp()):
            return True
        case ast.keyword(arg=None, value=ast.IfExp()):
            return True
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return any(key is None and isinstance(value, ast.IfExp) for key, value in pairs)
        case ast.For(iter=ast.IfExp()) | ast.comprehension(iter=ast.IfExp()):
            return True
        case ast.IfExp(orelse=ast.IfExp()) | ast.IfExp(body=ast.IfExp()):
            return True
        case ast.Compare(left=ast.Tuple(elts=[_, _, *_])):
            return True
        case ast.AugAssign(value=ast.IfExp()):
            return True
        case ast.BinOp(op=ast.Mult(), left=ast.JoinedStr() | ast.Constant(value=str())):
            return not isinstance(node.right, ast.Constant)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return len(node.generators) > 1
    return False
