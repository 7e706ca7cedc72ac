"""The examples in the docstrings of every module."""

import doctest
import importlib
import pkgutil

import pytest

PACKAGES = ("oracles", "hubbub", "producers", "aggregator")


def modules():
    for package in map(importlib.import_module, PACKAGES):
        submodules = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        yield from (package.__name__, *(module.name for module in submodules))


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in modules():
        module = importlib.import_module(name)
        yield from (test for test in finder.find(module) if test.examples)


@pytest.mark.parametrize("example", list(examples()), ids=lambda test: test.name)
def test_an_example_gives_its_output(example):
    output = []
    assert doctest.DocTestRunner(verbose=False).run(example, out=output.append).failed == 0, "".join(output)


def test_examples_are_found():
    assert sum(1 for _ in examples()) >= 10
