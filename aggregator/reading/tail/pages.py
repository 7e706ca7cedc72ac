"""The pages of the terminal: an overview of all queries, and a page for each. One key leads to each page. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

KEYS = "123456789abcdefghijklmnoprstuvwxyz"
"""The keys of the visible queries. `q` ends the command."""
OVERVIEW = "0\x1b"
"""The keys of the overview."""
MORE = " "
"""The key that shows the next rows of the overview."""


@dataclass
class Pages:
    """The page that is shown."""

    name: str | None = None
    """The query of the page, or None for the overview."""
    first: int = 0
    """The place of the first visible query of the overview."""

    def visible(self, names: Sequence[str], rows: int) -> list[tuple[str, str]]:
        """Return the key and the name of each query that the overview shows in this number of rows."""
        rows = max(1, min(rows, len(KEYS)))
        # Queries may have gone since the page was turned.
        if self.first >= len(names):
            self.first = 0
        return list(zip(KEYS, names[self.first : self.first + rows], strict=False))

    def press(self, key: str, names: Sequence[str], rows: int) -> None:
        """Turn to the page of a key. Other keys do nothing."""
        if key in OVERVIEW:
            self.name = None
        elif key == MORE:
            if self.name is None:
                self.first += len(self.visible(names, rows))
            self.name = None
        else:
            self.name = dict(self.visible(names, rows)).get(key, self.name)
