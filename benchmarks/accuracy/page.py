"""The page docs/accuracy.md, written from the results that studies have kept."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.accuracy.plots import draw
from benchmarks.accuracy.study import SEED, Claim, Section, Table

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "accuracy"
DOCS = ROOT / "docs"
HEAD = f"""# How accurate the shares are

`make bench-accuracy DATA=folder` writes this page and its plots: every figure comes from the code in this
repository, run on data whose truth is known. `python -m benchmarks.accuracy STUDY` runs one study.
[method.md](method.md) says what follows for a choice.

**How it is measured.** Support counts are drawn from their exact law, sums of binomials, where single values, pairs
or sums of squares are judged; attacks, panels and subset selection answer with real reports.
`tests/unit/test_draw.py` shows for each oracle that both agree in distribution. Every cell has a generator of its
own, seeded with {SEED} and its labels. `a ± b` is a mean over runs (or a part of trials) and its standard error.
MSE is the mean over values of (estimated share - true share)^2; sigma the standard error of an unbiased share at
zero; n people, d values.

**Data.** Retail Market Basket (FIMI, Tom Brijs): 908,576 bought items, 16,470 different ones, each taken as a
person's answer. Adult (UCI; rows with missing values dropped): 45,222 people, 9 attributes. Nursery (UCI): 12,960
rows, 9 attributes. MS-FIMU: 88,935 people, 6 attributes. None is part of this repository: DATA names a folder with
{{files}}.
"""


def write(studies: Mapping[str, str]) -> None:
    """The page and its plots, of the studies whose results are kept."""
    from benchmarks.accuracy.populations import FILES

    sections = {name: _section(name) for name in studies}
    text = [HEAD.format(files=", ".join(f"`{file}`" for file in FILES.values()))]
    claims = [claim for section in sections.values() if section for claim in section.claims]
    if claims:
        text.append(_claims(claims))
    for name, section in sections.items():
        text.extend(_told(studies[name], section))
    (DOCS / "accuracy.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")
    for section in sections.values():
        for plot in section.plots if section else ():
            draw(plot, DOCS / f"accuracy-{plot.name}.png")


def _section(name: str) -> Section | None:
    path = KEPT / f"{name}.json"
    return Section.load(path) if path.is_file() else None


def _claims(claims: list[Claim]) -> str:
    table = Table(
        "Claims, and whether they hold",
        "",
        ["of", "claim", "holds", "what we find"],
        [[claim.source, claim.claim, claim.verdict, claim.figures] for claim in claims],
    )
    return "\n".join(["## Claims, and whether they hold", "", *_rows(table), ""])


def _told(title: str, section: Section | None) -> Iterator[str]:
    if section is None:
        yield f"## {title}\n\nNot measured yet.\n"
        return
    yield f"## {title}\n\n{section.text}\n"
    for missing in section.skipped:
        yield f"*Left out: {missing}*\n"
    for plot in section.plots:
        yield f"![{plot.caption}](accuracy-{plot.name}.png)\n\n{plot.caption}\n"
    for table in section.tables:
        yield "\n".join([f"### {table.title}", "", *([table.note, ""] if table.note else []), *_rows(table), ""])


def _rows(table: Table) -> Iterator[str]:
    for row in (table.head, ["--"] * len(table.head), *table.rows):
        yield "|" + "|".join(row) + "|" if row[0] == "--" else "| " + " | ".join(row) + " |"
