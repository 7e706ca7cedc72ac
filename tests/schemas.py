"""Checks of records and alerts against the published schemas."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[1] / "hubbub" / "schemas"


def schema(name):
    """Return the validator of a schema, after a check of the schema itself."""
    document = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


RECORD, ALERT = schema("record"), schema("alert")


def record(value):
    """Return the record in these bytes, after a check against its schema."""
    return _validate(RECORD, value)


def alert(value):
    """Return the alert in these bytes, after a check against its schema."""
    return _validate(ALERT, value)


def _validate(validator, value):
    document = json.loads(value)
    validator.validate(document)
    return document
