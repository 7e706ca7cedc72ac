"""The characters of foreign text that a reader does not see."""

import re

_BLANK = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that Python calls printable, although they show nothing: fillers, blanks and variation selectors."""


def is_visible(character: str) -> bool:
    """Whether a character shows something. Controls, marks of direction and blanks show nothing.

    >>> is_visible("="), is_visible(chr(0x200B)), is_visible(chr(0x3164)), is_visible(" ")
    (True, False, False, False)
    """
    return character.isprintable() and not character.isspace() and not _BLANK.match(character)
