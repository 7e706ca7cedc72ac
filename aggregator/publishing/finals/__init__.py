"""Final records, made in a process of their own."""
