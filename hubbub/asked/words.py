"""What a list asks, in words for the people who sign it, and what changed since the list before."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hubbub.asked.asked_list import AskedList
from hubbub.command.options import duration_text
from hubbub.moments import utc
from hubbub.texts import few, most_odds

Document = Mapping[str, Any]

_ANSWERS = {
    "life": "the same answer of a device has the same noise each time",
    "once": "a device keeps its first answer",
    "fresh": "each answer of a device has noise of its own, and its own price",
}
_LONGEST = 200
"""Characters of a value in a change."""


def life_epsilon(document: Document) -> float:
    """Return the epsilon of all answers of a device, or of a round if the query renews."""
    is_fresh = document.get("answers") == "fresh"
    return float(document.get("budget" if is_fresh else "record_charge") or 0.0)


def question_facts(document: Document) -> Iterator[tuple[str, str]]:
    """Yield what a document asks of a person: the name of each fact, and a sentence."""
    yield "What", str(document.get("about") or "nobody says what is asked")
    yield "Why", str(document.get("purpose") or "nobody says why")
    yield "Who", str(document.get("contact") or "nobody says who asks")
    yield "Answers", answer_words(document)
    yield "One report", f"changes the odds of any guess by a factor of {most_odds(float(document['epsilon']))}"

    renew = document.get("renew")
    span = "ever" if renew is None else f"in {duration_text(renew)}, after which this begins again"
    yield "All answers", f"of a device change these odds by a factor of {most_odds(life_epsilon(document))}, {span}"
    yield "Repeats", _ANSWERS.get(str(document.get("answers")), "unknown")
    yield "How often", f"at most once in {duration_text(document['period'])}{_times(document)}"


def answer_words(document: Document) -> str:
    """Return the answers that a device may give."""
    if "attributes" in document:
        parts = (f"{name} ({_domain_words(part['domain'])})" for name, part in document["attributes"].items())
        return "; ".join(parts)
    groups = document.get("groups") or {}
    beside = "".join(f", beside {name} in clear ({few(values)})" for name, values in groups.items())
    return _domain_words(document["domain"]) + beside


def changes(earlier_list: AskedList | None, later_list: AskedList) -> list[str]:
    """Return what changed, a sentence a line: first what costs people more, then the rest in the order of names."""
    former_documents = {} if earlier_list is None else _documents(earlier_list)
    documents = _documents(later_list)
    sentences: list[tuple[float, str, str]] = []

    for name in sorted(former_documents.keys() | documents.keys()):
        if name not in documents:
            sentences.append((0.0, name, f"{name} is asked no more."))
        elif name not in former_documents:
            price = life_epsilon(documents[name])
            facts = (f"{label}: {text}" for label, text in question_facts(documents[name]))
            sentences.append((price, name, f"{name} is new. {'; '.join(facts)}."))
        elif documents[name] != former_documents[name]:
            rise = life_epsilon(documents[name]) - life_epsilon(former_documents[name])
            text = difference(former_documents[name], documents[name])
            sentences.append((max(0.0, rise), name, f"{name} changes: {text}."))

    return [text for _, _, text in sorted(sentences, key=lambda change: (-change[0], change[1]))]


def difference(former: Document, document: Document) -> str:
    """Return the members that differ, and the odds of a life if they do."""
    members = [
        f"{member} was {_short(former.get(member))}, is {_short(document.get(member))}"
        for member in sorted(former.keys() | document.keys())
        if former.get(member) != document.get(member)
    ]
    odds_before, odds_after = most_odds(life_epsilon(former)), most_odds(life_epsilon(document))
    if odds_before != odds_after:
        members.append(f"all answers of a device change odds by {odds_after}, and did by {odds_before}")
    return "; ".join(members)


def _documents(signed_list: AskedList) -> dict[str, Document]:
    """Return the newest document of each name. Of a long one only the hash is known."""
    return {
        name: questions[0].document or {"sha256": questions[0].sha256}
        for name, questions in signed_list.queries.items()
    }


def _domain_words(domain: Any) -> str:
    if isinstance(domain, list):
        return f"one of {few(domain)}"
    if isinstance(domain, int):
        return f"a number from 0 to {domain - 1}"
    if "discover" in domain:
        return f"any text, of which the first {domain['length']} characters count"
    unit = f" {domain['unit']}" if domain.get("unit") else ""
    return f"a number from {domain['low']:g} to {domain['high']:g}{unit}"


def _times(document: Document) -> str:
    start, end = document.get("from"), document.get("until")
    return (f", from {utc(start)}" if start else "") + (f", until {utc(end)}" if end else "")


def _short(value: Any) -> str:
    text = "absent" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
