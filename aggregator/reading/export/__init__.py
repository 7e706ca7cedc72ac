"""The export of published estimates to files and to tables for Python."""
