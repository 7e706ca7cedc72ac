"""The life of each question in the lists of an application: since when it is asked, and what changed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hubbub.asked.asked_list import AskedList, AskedQuestion
from hubbub.asked.words import difference


@dataclass(frozen=True)
class QuestionChange:
    """A list that asks a question in another form than the list before."""

    number: int
    time_s: int
    text: str


@dataclass(frozen=True)
class QuestionHistory:
    """A question, from the first list that has it."""

    name: str
    question: AskedQuestion
    """Its newest form. The document is None if the list has only its hash."""
    first_list: AskedList
    changes: tuple[QuestionChange, ...] = ()
    end: AskedList | None = None
    """The first list without the question, or None if it is still asked."""

    @property
    def document(self) -> Mapping[str, Any] | None:
        return self.question.document

    def followed(self, question: AskedQuestion, signed_list: AskedList) -> "QuestionHistory":
        """Return the history with the form of one list more."""
        if question.sha256 == self.question.sha256:
            return self
        text = "the definition has another hash, and no list has its document"
        if self.document is not None and question.document is not None:
            text = difference(self.document, question.document)
        change = QuestionChange(signed_list.number, signed_list.made, text)
        return replace(self, question=question, changes=(*self.changes, change))


def histories(lists: list[AskedList]) -> list[QuestionHistory]:
    """Return all questions, by name and by their first list. A question that comes back has a second history."""
    questions: dict[str, QuestionHistory] = {}
    over: list[QuestionHistory] = []
    for signed_list in lists:
        names = questions.keys() - signed_list.queries.keys()
        over += [replace(questions.pop(name), end=signed_list) for name in sorted(names)]
        for name, (question, *_) in signed_list.queries.items():
            history = questions.get(name) or QuestionHistory(name, question, signed_list)
            questions[name] = history.followed(question, signed_list)
    return sorted([*questions.values(), *over], key=lambda history: (history.name, history.first_list.number))
