"""Which files branch on the kind of an answer, or on what stands around it: groups, pairs, attributes and withholding.

A reader who adds a kind opens these files. A branch is a condition on something that only some kinds have, on a class
of one kind, or on the name of a kind. Python is read as code, and JavaScript is searched by a pattern.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

OPTIONAL = {
    "scale": "numbers",
    "numbers": "numbers",
    "strings": "names",
    "discovery": "names",
    "discover": "names",
    "search": "names",
    "groups": "groups",
    "group": "groups",
    "weights": "groups",
    "parts": "pairs",
    "pair": "pairs",
    "domain": "several answers",
    "attribute": "several answers",
    "attributes": "several answers",
    "withheld": "withholding",
}
"""What is None, unless the answers are of a kind, or unless it stands around them."""
CLASSES = {
    r"Number\w*|Haar": "numbers",
    r"Name\w*|Slots": "names",
    r"Group\w*": "groups",
    r"Pair\w*": "pairs",
    r"Multi": "several answers",
    r"Withheld\w*": "withholding",
}
"""The names of classes that only one kind has."""
CONSTANTS = {"NUMBERS": "numbers", "NUMBER_ORACLES": "numbers", "NAMES": "names"}
FLAGS = {"has_numbers": "numbers", "has_strings": "names", "is_discovery": "names"}
JAVASCRIPT = re.compile(rf"\b({'|'.join(OPTIONAL)}) [!=]== null")


def kinds_of(path: Path) -> set[str]:
    """Return the kinds on which a file branches."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        return {OPTIONAL[name] for name in JAVASCRIPT.findall(text)}
    return {kind for node in ast.walk(ast.parse(text)) for kind in node_kinds(node)}


def node_kinds(node: ast.AST) -> Iterator[str]:
    """Yield the kinds that a node asks for."""
    match node:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            yield from of_name(OPTIONAL, node.left)
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn()], comparators=[constant]):
            yield from of_name(CONSTANTS, constant)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, classes]):
            for name in (part.id for part in ast.walk(classes) if isinstance(part, ast.Name)):
                yield from (kind for pattern, kind in CLASSES.items() if re.fullmatch(pattern, name))
        case ast.If() | ast.IfExp():
            for part in ast.walk(node.test):
                if name_of(part) == "withheld":
                    yield "withholding"
        case ast.Attribute() | ast.Name():
            yield from of_name(FLAGS, node)


def of_name(kinds: dict[str, str], node: ast.AST) -> Iterator[str]:
    """Yield the kind that the name of a variable, a member or an item belongs to."""
    name = name_of(node)
    if name in kinds:
        yield kinds[name]


def name_of(node: ast.AST) -> str | None:
    """Return the last name of an expression, such as `scale` of `domain.scale` and of `fields["scale"]`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name
    return None
