"""The Walsh-Hadamard transform, which decodes local hashing and Hadamard response."""

import numpy as np
from numpy.typing import NDArray

_RADIX = 3
_MATRICES = [np.ones((1, 1), np.int64)]
for _ in range(_RADIX):
    _h = _MATRICES[-1]
    _MATRICES.append(np.block([[_h, _h], [_h, -_h]]))

_EXACT = ((np.float32, 1 << 24), (np.float64, 1 << 53))
"""Floats hold every integer up to these sizes, so sums below them are exact in every order."""


def walsh(vector: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the transform W[u] = sum over r of (-1)^parity(r & u) vector[r], of length 2**k, in integers.

    >>> walsh(np.array([5, 1, 0, 2]))
    array([8, 2, 4, 6])

    Each pass multiplies the three highest bits of the index by a small Hadamard matrix and makes them the
    lowest. After all passes every bit is back in its place. A pass is a product of matrices, which BLAS does at
    the speed of memory. The type is the narrowest that is exact.
    """
    bits = len(vector).bit_length() - 1
    if len(vector) != 1 << bits:
        raise ValueError(f"the length must be a power of two, got {len(vector)}")

    # No sum exceeds the total, nor the largest item times the number of items in it.
    total = int(np.abs(vector).sum())
    bound = int(np.abs(vector).max())
    sums: NDArray[np.generic] = vector
    while bits:
        radix = min(bits, _RADIX)
        bits -= radix
        bound = min(bound << radix, total)
        kind = next((kind for kind, limit in _EXACT if bound < limit), np.int64)
        matrix = _MATRICES[radix].astype(kind)
        sums = np.matmul(sums.astype(kind, copy=False).reshape(1 << radix, -1).T, matrix).reshape(-1)
    return sums.astype(np.int64)
