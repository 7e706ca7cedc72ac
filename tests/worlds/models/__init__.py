"""Random models show designs whose code is not written yet: `python -m tests.worlds.models`."""
