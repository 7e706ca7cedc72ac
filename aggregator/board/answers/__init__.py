"""Answers of the API, one module a subject, and what they share: parameters, lookup, views, rows and replies."""
