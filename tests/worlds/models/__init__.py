"""Random models of designs whose code is not written yet: `python -m tests.worlds.models`."""
