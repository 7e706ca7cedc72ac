"""A source of bytes that are known before, such as those of a golden vector."""

import numpy as np

from oracles.mechanisms.entropy import Source


class Fixed(Source):
    """A source of exactly these bytes."""

    def __init__(self, data):
        self.left = data

    def raw(self, count):
        assert count <= len(self.left)
        data = self.left[:count]
        self.left = self.left[count:]
        return np.frombuffer(data, np.uint8)
