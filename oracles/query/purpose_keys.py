"""Keys of a query that say to people what is asked, why, and by whom. They change no digest and no number."""

from typing import TYPE_CHECKING

from oracles.query.draft import Key
from oracles.query.settings import FLAG, Rule

if TYPE_CHECKING:
    from oracles.query import Query

LONGEST_TEXT = 500
"""Characters of the longest text. Each device reads them with the definition."""

_TEXT = Rule(
    f"a text of 1 to {LONGEST_TEXT} characters in one line",
    # A device may print the text, and a control character could change what its person sees.
    lambda value: (
        isinstance(value, str) and len(value.strip()) > 0 and len(value) <= LONGEST_TEXT and value.isprintable()
    ),
)

PURPOSE_KEYS = (
    Key("about", "what is asked, in one sentence for the person who answers ([governance.md](governance.md))", _TEXT),
    Key("purpose", "why it is asked, in one sentence for the person who answers", _TEXT),
    Key("contact", "who asks, and where people can turn to: an address or a page", _TEXT),
    Key(
        "public",
        "whether `hubbub publish --results` may show the newest results to everybody",
        FLAG,
        False,
        # Only a definition that uses the key has it in the topic, so others keep their bytes.
        dump=lambda query: query.public or None,
    ),
)


def purpose_of(query: "Query") -> dict[str, str]:
    """Return the texts that a query has, by the names of their keys."""
    texts = {"about": query.about, "purpose": query.purpose, "contact": query.contact}
    return {name: text for name, text in texts.items() if text is not None}
