"""The way of reports from the body of a request to the log."""
