"""The page of a device as one file, with a simulated crowd in it. It needs no server and sends nothing."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from oracles.errors import ParameterError
from oracles.mechanisms.grr import Grr
from oracles.query import Query, parse

FOLDER = Path(__file__).parent
PAGE = FOLDER / "page"
QUERIES = FOLDER / "device.toml"
BOARD = FOLDER.parents[1] / "board" / "static"
"""The files of the board's page, from which this page has its style."""
MODULES = ("entropy.js", "grr.js", "frame.js", "observer.js", "simulation.js", "live.js", "views.js", "page.js")
"""The modules of the page, each after those that it imports."""
BOARD_FILES = ("page.css", "theme.js", "format.js", "icon.svg")
"""The files of the board's page that this page uses."""
EPSILONS = (0.5, 1.0, 2.0, 4.0)
EPSILON = 1.0
"""The epsilon with which the page opens."""
WEIGHTS = (12, 6, 4, 3)
"""The crowd's true answers: the first drink is twice as common as the second, and so on (zipf:1)."""
QUESTION = "What do you like best?"
MAX_NAMES = 12
"""Most answers that fit on the page."""

_IMPORT = re.compile(r'^import [^;]+ from "[./\w]+";\n', re.MULTILINE)
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
"""A policy under which the browser itself refuses every request of the page."""


def device_query(queries: Mapping[str, Query]) -> Query:
    """Return the first query that the page can show: names, each report one of them."""
    for query in queries.values():
        # Only a query of one answer has the oracle itself.
        domain = query.domains[0]
        is_simple = isinstance(query.oracle, Grr) and query.table is None
        if is_simple and domain.values is not None and not domain.other and domain.size <= MAX_NAMES:
            return query
    raise ParameterError(
        f'the page of a device needs a query with 2 to {MAX_NAMES} names, oracle = "grr", '
        'other = false and noise = "each"'
    )


def html(setting: Mapping[str, Any]) -> str:
    """Return the page with its setting, which its script reads."""
    # A name with </script> in it would end the script of the page.
    text = json.dumps(setting).replace("<", "\\u003c")
    return (PAGE / "index.html").read_text(encoding="utf-8").replace("SETTING", text)


def static_page() -> str:
    """Return the whole page as one file."""
    setting = {
        "question": QUESTION,
        "definitions": [_definition(epsilon) for epsilon in EPSILONS],
        "epsilon": EPSILON,
        "weights": WEIGHTS,
    }

    page = html(setting)
    icon = f"data:image/svg+xml,{quote(_read(BOARD / 'icon.svg'))}"
    style = _read(BOARD / "page.css") + _read(PAGE / "page.css")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'

    for fragment, replacement in (
        ('<meta charset="utf-8">', f'<meta charset="utf-8">\n    {policy}'),
        ('<link rel="stylesheet" href="static/page.css">', f"<style>\n{style}</style>"),
        ('    <link rel="stylesheet" href="static/device/page.css">\n', ""),
        (
            '<script src="static/device/page.js" type="module"></script>',
            f'<script type="module">\n{_script()}</script>',
        ),
        ('<script src="static/theme.js"></script>', f"<script>\n{_read(BOARD / 'theme.js')}</script>"),
        ("static/icon.svg", icon),
    ):
        # A page that has changed would otherwise keep a link to a file that is not there.
        if fragment not in page:
            raise RuntimeError(f"{fragment} is missing in {PAGE / 'index.html'}")
        page = page.replace(fragment, replacement)
    return page


def _definition(epsilon: float) -> dict[str, Any]:
    """Return the members of a definition that the page reads, as a gateway lists them."""
    settings = tomllib.loads(_read(QUERIES))
    (name,) = settings["queries"]
    settings["queries"][name]["epsilon"] = epsilon
    query = parse(settings, str(QUERIES), ".")[name]

    return {
        "name": query.name,
        "digest": query.digest.hex(),
        "epsilon": query.epsilon,
        "domain": [query.domains[0].name(position) for position in range(query.domains[0].size)],
        "pane": query.pane,
        "width": query.oracle.width,
        "thresholds": query.thresholds,
    }


def _script() -> str:
    """Return all modules in one. Their top-level names differ, otherwise the browser refuses the script."""
    texts = [_read(BOARD / "format.js"), *(_read(PAGE / name) for name in MODULES)]
    return "\n".join(re.sub(r"^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE) for text in texts)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
