"""Queries: the definitions in a query file, their checks, and the digest that reports carry."""

from oracles.query.answers import Attribute
from oracles.query.definition import Query
from oracles.query.file import File, load, load_file, parse

__all__ = ["Attribute", "File", "Query", "load", "load_file", "parse"]
