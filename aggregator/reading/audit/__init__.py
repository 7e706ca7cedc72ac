"""The audit, which counts the log again and compares the result with the published records."""
