"""Predictions for the kinds of answers, one module a kind."""
