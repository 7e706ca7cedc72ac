"""The base of all answers of the API that have a table."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from aggregator.board.answers.parameters import Parameters
from aggregator.board.store.store import Store


@dataclass(frozen=True, kw_only=True)
class TableAnswer(ABC):
    """An answer with one table, which CSV shows."""

    table: ClassVar[str]
    """The name of the field that holds the rows."""
    columns: ClassVar[tuple[str, ...]]
    """The columns of the CSV, in order."""

    @classmethod
    @abstractmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        """Return the answer about the query `name`, limited by the parameters."""

    @classmethod
    def parts(cls, store: Store, parameters: Parameters, name: str) -> Iterator[Self | None]:
        """Yield None after each part of the work, and then the answer. A short answer has one part."""
        yield cls.of(store, parameters, name)

    @property
    def rows(self) -> Sequence[Any]:
        rows: Sequence[Any] = getattr(self, self.table)
        return rows
