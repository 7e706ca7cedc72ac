"""Readers of what is published: followed in the terminal, taken away as a table, held against the log."""
