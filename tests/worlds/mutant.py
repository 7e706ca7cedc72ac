"""A planted bug: it changes a few lines of one function of the product in memory."""

import importlib
import inspect
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A bug: the function that has it, and the lines that it changes."""

    name: str
    place: str
    """The module and the function, as in `package.module:Class.method`."""
    original: str
    """Text of the function that is replaced."""
    changed: str
    step: int
    """The step of docs/exactness.md that it breaks."""

    @contextmanager
    def applied(self):
        """Run with the bug."""
        module_name, _, path = self.place.partition(":")
        module = importlib.import_module(module_name)
        owner = module
        *owners, name = path.split(".")
        for part in owners:
            owner = getattr(owner, part)
        function = getattr(owner, name)
        source = textwrap.dedent(inspect.getsource(function))
        if self.original not in source:
            raise ValueError(f"mutant {self.name}: {self.place} has not the lines that it changes")

        namespace = {}
        code = compile(source.replace(self.original, self.changed), inspect.getsourcefile(function), "exec")
        exec(code, function.__globals__, namespace)  # noqa: S102 - the text is ours
        setattr(owner, name, namespace[name])
        try:
            yield
        finally:
            setattr(owner, name, function)
