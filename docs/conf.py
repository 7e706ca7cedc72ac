"""The documentation's site: `make docs` builds it with Sphinx from the same Markdown that GitHub shows."""

import json
import re
from pathlib import Path

from sphinx.application import Sphinx

from aggregator.demo.device.static_page import static_page

ROOT = Path(__file__).parent.parent
INDEX, RUNBOOKS = "docs/index", "deploy/runbooks/README"
DEVICE, DEVICE_SOURCE = "device.html", "aggregator/demo/device/page/index.html"
"""The page on which the reader is a device, in the site, and the file to which the documents link."""

project = "hubbub"
author = "hubbub's authors"
html_title = "hubbub"
root_doc = INDEX
extensions = ["myst_parser"]
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/*.ipynb",
    "deploy/runbooks/*.md",
    "helm/hubbub/README.md",
    "clients/js/README.md",
    "clients/c/README.md",
]
exclude_patterns = [".*", "build", "dist", "node_modules", "aggregator", "benchmarks", "hubbub", "oracles", "producers"]
myst_heading_anchors = 4
html_theme = "furo"
html_theme_options = {"source_edit_link": None}
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_extra_path = ["site"]
pygments_style = "friendly"
pygments_dark_style = "native"

_SECTION = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:(?!## ).*\n?)*)", re.MULTILINE)
_PAGE = re.compile(r"\]\((?P<path>[^)#:]+\.(?:md|ipynb))\)")
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<path>[^)#:]+)\)")


def setup(app: Sphinx) -> None:
    app.add_source_suffix(".ipynb", "markdown")
    app.connect("source-read", _read)
    app.connect("build-finished", _add_device_page)


def _add_device_page(app: Sphinx, error: Exception | None) -> None:
    """Add the page on which the reader is a device, with a simulated crowd in it."""
    if error is None and app.builder.format == "html":
        (app.outdir / DEVICE).write_text(static_page(), encoding="utf-8")


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn a page as GitHub shows it into Markdown of MyST."""
    path = Path(app.env.doc2path(name))
    text = _notebook(source[0]) if path.suffix == ".ipynb" else source[0]
    source[0] = _with_device_page(_without_folders(text, path.parent))
    if name == INDEX:
        source[0] += "".join(_tree(section["title"], section["body"]) for section in _SECTION.finditer(text))
    elif name == RUNBOOKS:
        source[0] += _tree("", "".join(f"]({page.name})" for page in sorted(path.parent.glob("Hubbub*.md"))))


def _tree(caption: str, text: str) -> str:
    """Return a navigation of the pages that a text links to."""
    pages = dict.fromkeys(re.sub(r"\.\w+$", "", page["path"]) for page in _PAGE.finditer(text))
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return f"\n\n```{{toctree}}\n{options}\n" + "\n".join(pages) + "\n```\n"


def _notebook(text: str) -> str:
    """Return a notebook's cells as Markdown."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    return "\n\n".join(f"```python\n{source}\n```" if kind == "code" else source for kind, source in cells)


def _without_folders(text: str, folder: Path) -> str:
    """Replace links to folders by their text: a site has pages and files only."""
    return _LINK.sub(lambda link: link["text"] if (folder / link["path"]).is_dir() else link[0], text)


def _with_device_page(text: str) -> str:
    """Lead links to the source of the page of a device to the page itself. Documents with such links are in docs."""
    return re.sub(rf"\[([^\]]+)\]\((?:\.\./)?{re.escape(DEVICE_SOURCE)}\)", rf'<a href="../{DEVICE}">\1</a>', text)
