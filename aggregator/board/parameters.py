"""The parameters of a request: those that are known, as what they mean; a Problem says what would do."""

import math
from collections import Counter
from collections.abc import Sequence

from aggregator.board.reply import bad


class Parameters:
    """A request's parameters. Names that the route does not know are refused: a misspelt one must not go unnoticed."""

    def __init__(self, given: Sequence[tuple[str, str]], known: Sequence[str]) -> None:
        self._given: dict[str, list[str]] = {}
        for name, text in given:
            if name not in known:
                raise bad(f"there is no parameter {name!r} here; there are {', '.join(known)}", parameter=name)
            self._given.setdefault(name, []).append(text)

    def text(self, name: str) -> str | None:
        texts = self._given.get(name, [])
        if len(texts) > 1:
            raise bad(f"{name} stands {len(texts)} times; it may stand once", parameter=name)
        return texts[0] if texts else None

    def number(self, name: str, least: int, most: int) -> int | None:
        """A whole number."""
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 15 or not least <= int(text) <= most:
            raise bad(f"{name} must be a whole number from {least} to {most}, got {text!r}", parameter=name)
        return int(text)

    def whole(self, name: str, least: int, most: int, default: int) -> int:
        number = self.number(name, least, most)
        return default if number is None else number

    def above(self, name: str, least: float, most: float, default: float) -> float:
        """A number above `least` and at most `most`."""
        text = self.text(name)
        if text is None:
            return default
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least < number <= most:
            raise bad(f"{name} must be a number above {least:g} and at most {most:g}, got {text!r}", parameter=name)
        return number

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        text = self.text(name)
        if text is not None and text not in choices:
            raise bad(f"{name} must be one of {', '.join(choices)}, got {text!r}", parameter=name)
        return text

    def flag(self, name: str) -> bool:
        return self.choice(name, ("true", "false")) == "true"

    def values(self, most: int) -> list[str] | None:
        """Names of values: `values` with commas between them, and `value` for one whose name has a comma."""
        joined = self.text("values")
        names = [*(joined.split(",") if joined else []), *self._given.get("value", [])]
        if len(names) > most:
            raise bad(f"{len(names)} values are asked for at once; {most} may be", parameter="values")
        again = next((name for name, count in Counter(names).items() if count > 1), None)
        if again is not None:
            raise bad(f"the value {again!r} is asked for twice", parameter="values")
        return names or None
