"""What a request is answered where it cannot be: application/problem+json (RFC 9457)."""

from typing import Any

from aggregator.board.answers import Answer
from oracles.errors import HubbubError

TITLES = {
    400: "The request cannot be understood",
    401: "A token is needed",
    404: "There is nothing here",
    405: "The method is not allowed here",
    500: "The board has made a mistake",
    503: "The board cannot answer now",
}


class Problem(HubbubError):
    """A request that cannot be answered; `detail` says why and what would do."""

    def __init__(self, status: int, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.more = more
        """Members beside those that every problem has."""

    def answer(self) -> Answer:
        title = TITLES.get(self.status, "The request failed")
        return Answer.json({"status": self.status, "title": title, "detail": self.detail, **self.more}, problem=True)


def bad(detail: str, **more: Any) -> Problem:
    """A parameter that cannot be understood, or an answer that cannot be had."""
    return Problem(400, detail, **more)


def missing(detail: str, **more: Any) -> Problem:
    """Something that is named and is not there."""
    return Problem(404, detail, **more)
