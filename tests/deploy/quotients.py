"""The quotients of PromQL expressions, and whether their denominators can be 0."""

import re

RANGES = r"\b(?:rate|irate|increase|delta|count_over_time|changes|resets)\("
"""Functions that are 0 if nothing happened in their time."""
GUARD = re.compile(r"(?<![<>=!])> 0\b|\bclamp_min\(")
OPERATORS = re.compile(r"(?:\+|-|==|!=|<=|>=|<|>|\b(?:and|or|unless)\b)")
MODIFIERS = re.compile(r"\s*(?:(?:on|ignoring|group_left|group_right)\b\s*(?:\([^)]*\))?\s*)+")


def denominators(expression):
    """Return the right sides of all divisions of an expression."""
    text = re.sub(r"#.*", "", expression)
    return [_operand(text, place.end()) for place in re.finditer(r"/", _without_strings(text))]


def unguarded(expression, series=()):
    """Return the denominators that are a rate, an increase or one of these series, and have no guard."""
    names = "|".join(map(re.escape, series))
    pattern = f"{RANGES}|(?<![\\w:])(?:{names})(?![\\w:])" if names else RANGES
    return [part for part in denominators(expression) if re.search(pattern, part) and not GUARD.search(part)]


def counted(rules):
    """Return the recorded series whose value can be 0 because nothing happened: rates, and sums of such series."""
    counts = set()
    while True:
        more = {rule["record"] for rule in rules if _falls_to_zero(rule["expr"], counts)} - counts
        if not more:
            return counts
        counts |= more


def _falls_to_zero(expression, series):
    names = "|".join(map(re.escape, series))
    pattern = f"{RANGES}|(?<![\\w:])(?:{names})(?![\\w:])" if names else RANGES
    return re.search(pattern, expression) is not None


def _without_strings(text):
    """Return the text with its strings as blanks, because a label may hold any sign."""
    return re.sub(r'"[^"]*"', lambda match: " " * len(match[0]), text)


def _operand(text, start):
    """Return the operand that begins here: up to an operator or a bracket outside of its own brackets."""
    plain = _without_strings(text)
    modifiers = MODIFIERS.match(plain, start)
    place = begin = modifiers.end() if modifiers else start
    depth = 0
    while place < len(plain):
        sign = plain[place]
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and place > begin and OPERATORS.match(plain, place):
            break
        place += 1
    return text[begin:place].strip()
