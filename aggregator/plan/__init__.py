"""The promise and the cost of a query, before anyone is asked."""
