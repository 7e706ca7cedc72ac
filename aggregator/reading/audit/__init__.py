"""The audit: the log folded again, alone, beside what was published."""
