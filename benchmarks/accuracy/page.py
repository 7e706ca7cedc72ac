"""The page docs/accuracy.md, from the stored results of the studies."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.accuracy import paper_claims
from benchmarks.accuracy.plots import draw
from benchmarks.accuracy.study import SEED, Claim, Section, Table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "accuracy"
DOCS = ROOT / "docs"
HEAD = f"""# How accurate the shares are

`make bench-accuracy DATA=folder` writes this page and its plots. The code in this repository computes every
figure, from data whose truth is known. `python -m benchmarks.accuracy STUDY` runs one study.
[choosing.md](choosing.md) turns the results into advice.

**Method.** For single values, pairs and sums of squares, the studies draw support counts from their exact law,
which is a sum of binomials. Attacks, panels and subset selection use real reports. `tests/unit/test_draw.py`
shows for each oracle that both have the same distribution. Every cell has its own generator, seeded with {SEED}
and its labels. `a ± b` is a mean over runs (or a share of trials) and its standard error. MSE is the mean over
values of (estimated share - true share)^2. sigma is the standard error of an unbiased share at zero. n is the
number of people, and d the number of values.

**Data.** No data set is part of this repository. DATA names a folder with {{files}}.

- Retail Market Basket (FIMI, Tom Brijs) has 908,576 bought items, 16,470 different ones. Each item counts as a
  person's answer.
- Kosarak (clicks) and POS (bought items) are the other two sets of Jia and Gong, with the columns `id,count` as Retail.
- Adult (UCI, without rows with missing values) has 45,222 people and 9 attributes.
- Nursery (UCI) has 12,960 rows and 9 attributes.
- MS-FIMU has 88,935 people and 6 attributes.
"""


def write(studies: Mapping[str, str]) -> None:
    """Write the page and its plots from the stored results."""
    from benchmarks.accuracy.populations import FILES

    sections = {name: _section(name) for name in studies}
    text = [HEAD.format(files=", ".join(f"`{file}`" for file in FILES.values()))]
    claims = [claim for section in sections.values() if section for claim in section.claims]
    if claims:
        text.append(_claims(claims))
    text.append(_paper_claims())
    for name, section in sections.items():
        text.extend(_study(studies[name], section))
    (DOCS / "accuracy.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")
    for section in sections.values():
        for plot in section.plots if section else ():
            draw(plot, DOCS / f"accuracy-{plot.name}.png")


def _section(name: str) -> Section | None:
    path = RESULTS / f"{name}.json"
    return Section.load(path) if path.is_file() else None


def _claims(claims: list[Claim]) -> str:
    table = Table(
        "Claims, and whether they hold",
        "",
        ["source", "claim", "holds", "result"],
        [[claim.source, claim.claim, claim.verdict, claim.figures] for claim in claims],
    )
    return "\n".join(["## Claims, and whether they hold", "", *_rows(table), ""])


def _paper_claims() -> str:
    claims = paper_claims.table()
    return "\n".join([f"## {claims.title}", "", claims.note, "", *_rows(claims), ""])


def _study(title: str, section: Section | None) -> Iterator[str]:
    if section is None:
        yield f"## {title}\n\nNot measured yet.\n"
        return
    yield f"## {title}\n\n{section.text}\n"
    for missing in section.omissions:
        yield f"*Left out: {missing}*\n"
    for plot in section.plots:
        yield f"![{plot.caption}](accuracy-{plot.name}.png)\n\n{plot.caption}\n"
    for table in section.tables:
        yield "\n".join([f"### {table.title}", "", *([table.note, ""] if table.note else []), *_rows(table), ""])


def _rows(table: Table) -> Iterator[str]:
    for row in (table.head, ["--"] * len(table.head), *table.rows):
        yield "|" + "|".join(row) + "|" if row[0] == "--" else "| " + " | ".join(row) + " |"
