"""Readers of what is published."""
