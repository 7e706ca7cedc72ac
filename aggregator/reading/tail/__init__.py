"""Estimates and alerts in the terminal."""
