"""A mutator that makes almost valid bytes, random bytes, and JSON with changed members."""

import copy
import json

import orjson

STRANGE = (
    None,
    True,
    False,
    "",
    "x",
    "1",
    "y" * 300,
    "\0",
    "é",
    "(other)",
    "nan",
    "1e999",
    0,
    1,
    -1,
    0.5,
    -0.0,
    1e300,
    1 << 31,
    1 << 53,
    (1 << 63) - 1,
    -(1 << 63),
    [],
    {},
    [1],
    [[1]],
    [None],
    ["a", "a"],
    {"a": 1},
    {"file": "nowhere"},
    [[]] * 20,
)
TOKENS = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n",
    b'"',
    b"'",
    b"\\",
    b"\\ud800",
    b'"""',
    *(b"{", b"}", b"[", b"]", b"[" * 2_000, b'{"a":' * 500, b",", b":", b"=", b"|", b"#", b"=1+1", b"\x1b[2J"),
    b"0",
    b"-1",
    b"1e999",
    b"nan",
    b"inf",
    b"NaN",
    b"9" * 400,
    b"9" * 5_000,
    b"0x7fffffffffffffff",
    b"1_0",
    b"+1",
    b"true",
    b"null",
    b"1979-05-27T07:32:00Z",
    b"9999-12-31",
    b'"10s"',
    b"99999999999d",
    b"all",
    b"../../x",
)
"""Bytes that are difficult for parsers."""
EDGES = (0, 1, -1, 127, 255, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 53, (1 << 63) - 1, -(1 << 63))


def corrupt(data, draw):
    """Return the data with random changes. The result is usually invalid."""
    chance = draw.random()
    if chance < 0.02:
        return draw.randbytes(draw.randrange(200))
    if chance < 0.5 and data[:1] in b"{[" and (text := _corrupt_first_line(data, draw)) is not None:
        return text
    data = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        _CHANGES[draw.randrange(len(_CHANGES))](data, draw)
    return bytes(data)


def corrupt_json(value, draw):
    """Return a JSON value with one to three of its parts removed or replaced."""
    value = copy.deepcopy(value)
    for _ in range(draw.randint(1, 3)):
        paths = [path for path in _paths(value) if len(path) < 4 or draw.random() < 0.1]
        if not paths:
            return draw.choice(STRANGE)
        *earlier_value, last_value = draw.choice(paths)
        inner = value
        for key in earlier_value:
            inner = inner[key]
        if draw.random() < 0.2:
            del inner[last_value]
        else:
            inner[last_value] = copy.deepcopy(draw.choice(STRANGE))
    return value


def _corrupt_first_line(data, draw):
    """Change the first line if it is JSON, else return None. States have counts after this line."""
    line, newline, rest = data.partition(b"\n")
    try:
        value = orjson.loads(line)
    except ValueError:
        return None
    return json.dumps(corrupt_json(value, draw)).encode() + newline + rest


def _paths(value, at=()):
    items = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)

    for key, inner in items:
        yield (*at, key)
        yield from _paths(inner, (*at, key))


def _byte(data, draw):
    if data:
        data[draw.randrange(len(data))] = draw.randrange(256)


def _bit(data, draw):
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _edge(data, draw):
    width = draw.choice((1, 2, 4, 8))
    if len(data) >= width:
        position = draw.randrange(len(data) - width + 1)
        number = draw.choice(EDGES) & ((1 << 8 * width) - 1)
        data[position : position + width] = number.to_bytes(width, draw.choice(("little", "big")))


def _token(data, draw):
    position = draw.randrange(len(data) + 1)
    data[position : position + draw.choice((0, 0, 1, 4))] = draw.choice(TOKENS)


def _cut(data, draw):
    del data[draw.randrange(len(data) + 1) :]


def _delete(data, draw):
    position = draw.randrange(len(data) + 1)
    del data[position : position + draw.randrange(1, 9)]


def _repeat(data, draw):
    position = draw.randrange(len(data) + 1)
    piece = data[position : position + draw.randrange(1, 100)]
    data[position:position] = piece


def _swap_lines(data, draw):
    """Swap two lines."""
    lines = data.split(b"\n")
    first_line = draw.randrange(len(lines))
    second_line = draw.randrange(len(lines))
    lines[first_line], lines[second_line] = lines[second_line], lines[first_line]
    data[:] = b"\n".join(lines)


_CHANGES = (_byte, _byte, _bit, _edge, _token, _token, _cut, _delete, _repeat, _swap_lines)
