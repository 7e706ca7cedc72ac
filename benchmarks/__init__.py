"""Benchmarks. `python -m benchmarks.NAME` in the root of the repository runs one."""

import os

# A worker has one core. NumPy reads this when it is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
