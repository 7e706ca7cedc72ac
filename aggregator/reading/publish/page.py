"""The public page of everything that an application ever asked: one file of HTML, without a script."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from aggregator.reading.publish.question_history import QuestionHistory, histories
from hubbub.asked.asked_list import AskedList
from hubbub.asked.words import question_facts
from hubbub.moments import utc

_STYLE = """\
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #57606a; --paper: #ffffff; --line: #d0d7de; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --faint: #9aa4af; --paper: #0d1117; --line: #30363d; }
}
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 46rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.25; }
h2 { margin-top: 2.5rem; font-size: 1.3rem; }
h3 { margin: 0 0 .5rem; font-size: 1.1rem; overflow-wrap: anywhere; }
article { margin: 1.5rem 0; padding: 1rem 1.25rem; border: 1px solid var(--line); border-radius: .5rem; }
dl { display: grid; grid-template-columns: 8rem 1fr; gap: .35rem 1rem; margin: 0; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
code { font-size: .85em; overflow-wrap: anywhere; }
a { color: inherit; }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
"""

_LIMITS = (
    "It shows what the lists say. A device that checks lists answers nothing else, but another device may.",
    "It cannot show that two people have the same lists. Compare number and hash with those that your device shows.",
    "Epsilon protects answers, not the fact that a device answers: silence and the time of an answer are visible.",
)
"""What a page made from lists cannot prove."""


def page(lists: list[AskedList]) -> str:
    """Return the page of an application's lists, the newest last. Equal lists give equal text."""
    application = escape(lists[-1].application)
    questions = histories(lists)
    present = [history for history in questions if history.end is None]
    over = [history for history in questions if history.end is not None]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>What {application} asks</title>",
            f"<style>\n{_STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            f"<h1>What {application} asks</h1>",
            *_introduction(lists),
            *_section("Asked now", present, "Nothing is asked."),
            *_section("Asked before", over, "No question has ended."),
            *_lists(lists),
            "<h2>What this page cannot prove</h2>",
            *_bullets(map(escape, _LIMITS)),
            "</main>",
            "</body>",
            "</html>\n",
        ]
    )


def _introduction(lists: list[AskedList]) -> Iterator[str]:
    newest_list = lists[-1]
    yield (
        "<p>Devices of this application answer these questions. Each device adds random noise to an answer before the "
        "answer leaves, and the odds below say how much an answer can still tell. The questions come from lists that "
        "people sign.</p>"
    )
    facts = {
        "Newest list": f"number {newest_list.number}, made {utc(newest_list.made)}, ends {utc(newest_list.expires)}",
        "Hash": newest_list.hash,
        "Signed by": ", ".join(key for key, _ in newest_list.signatures) or "nobody yet",
    }
    yield from _facts(facts.items())


def _section(title: str, questions: list[QuestionHistory], empty: str) -> Iterator[str]:
    yield f"<h2>{title}</h2>"
    if not questions:
        yield f"<p>{empty}</p>"
    for history in questions:
        yield "<article>"
        yield f"<h3>{escape(history.name)}</h3>"
        yield from _facts(_question(history))
        yield "</article>"


def _question(history: QuestionHistory) -> Iterator[tuple[str, str]]:
    if history.document is None:
        yield "Definition", f"too long for a list; its SHA-256 is {history.question.sha256}"
    else:
        yield from question_facts(history.document)
    yield "Asked since", f"{utc(history.first_list.made)}, list {history.first_list.number}"
    if history.end is not None:
        yield "Asked until", f"{utc(history.end.made)}, list {history.end.number}"
    for change in history.changes:
        yield f"Changed in list {change.number}", f"{utc(change.time_s)}: {change.text}"


def _lists(lists: list[AskedList]) -> Iterator[str]:
    yield "<h2>All lists</h2>"
    yield from _bullets(
        f'<a href="asked/{signed_list.number}.json">List {signed_list.number}</a>, made {utc(signed_list.made)}: '
        f"<code>{signed_list.hash}</code>"
        for signed_list in lists
    )


def _facts(facts: Iterable[tuple[str, Any]]) -> Iterator[str]:
    yield "<dl>"
    for name, value in facts:
        yield f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
    yield "</dl>"


def _bullets(texts: Iterable[str]) -> Iterator[str]:
    yield "<ul>"
    yield from (f"<li>{text}</li>" for text in texts)
    yield "</ul>"
