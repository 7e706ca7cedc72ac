"""Random streams of a device key. The same round and class always get the same noise, even with a new store."""

import hmac
import struct
from enum import IntEnum
from hashlib import sha256

import numpy as np

from oracles.errors import ParameterError
from oracles.mechanisms.entropy import Bytes, Source

KEY_BYTES = 32
_BLOCK = 32
EVERY_CLASS = (-1,)
"""The class of the stream of a table, which holds the answers of all classes."""


class Mode(IntEnum):
    """The meaning of a stream's round: a time or a number."""

    STABLE = 0
    """For answers "life" and "once": the Unix second at which the round starts."""
    FRESH = 1
    """For answers "fresh": the number of earlier answers."""


class Purpose(IntEnum):
    """The purpose of a stream."""

    ATTRIBUTE = 0
    """The attribute that an smp record answers."""
    ROWS = 1
    ANSWER = 2
    """The report of a class, or the table of all classes."""


class Keyed(Source):
    """A stream of HMAC-SHA-256 blocks: block i is the code of all parameters and of i.

    `classes` has one class, or EVERY_CLASS for a table. A record of rsfd has one class for each attribute. Rows and the
    attribute of smp have none.
    """

    def __init__(
        self,
        key: bytes,
        digest: bytes,
        attribute: int = 0,
        mode: int = Mode.STABLE,
        purpose: int = Purpose.ANSWER,
        round: int = 0,  # noqa: A002 - the word of the wire format
        classes: tuple[int, ...] = (),
    ) -> None:
        if len(key) != KEY_BYTES:
            raise ParameterError(f"a device key has {KEY_BYTES} bytes, this one has {len(key)}")
        parameters = struct.pack(f"<8sHBBq{len(classes)}q", digest, attribute, mode, purpose, round, *classes)
        self._code = hmac.new(key, parameters, sha256)
        self._block = 0
        self._rest = b""

    def raw(self, count: int) -> Bytes:
        parts = [self._rest]
        length = len(self._rest)
        while length < count:
            # The code of the parameters is computed once. Each block goes on from a copy of it.
            code = self._code.copy()
            code.update(struct.pack("<I", self._block))
            self._block += 1
            parts.append(code.digest())
            length += _BLOCK
        data = b"".join(parts)
        self._rest = data[count:]
        return np.frombuffer(data[:count], np.uint8)
