"""What is emitted, held to the published schemas."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[1] / "hubbub" / "schemas"


def schema(name):
    """The validator of a schema, which is itself a valid one."""
    read = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(read)
    return Draft202012Validator(read)


RECORD, ALERT = schema("record"), schema("alert")


def record(value):
    """The record in these bytes, valid."""
    return _valid(RECORD, value)


def alert(value):
    """The alert in these bytes, valid."""
    return _valid(ALERT, value)


def _valid(validator, value):
    read = json.loads(value)
    validator.validate(read)
    return read
