"""Alerts: what changed between two windows."""
