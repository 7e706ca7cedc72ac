"""The promise and the cost of a query, computed before any client answers."""
