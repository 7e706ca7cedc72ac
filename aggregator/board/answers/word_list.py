"""The answer of the texts of flags and alerts, which the page shows."""

from dataclasses import dataclass, fields
from typing import Self

from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.table_answer import TableAnswer
from aggregator.board.store.store import Store
from aggregator.records.words import WORDS, Word


@dataclass(frozen=True, kw_only=True)
class WordList(TableAnswer):
    """The texts of flags and alerts."""

    table = "words"
    columns = tuple(field.name for field in fields(Word))

    words: list[Word]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        del store, parameters, name
        return cls(words=[*WORDS])
