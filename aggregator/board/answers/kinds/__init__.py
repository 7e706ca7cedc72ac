"""Answers of the API for the kinds of answers, one module a kind."""
