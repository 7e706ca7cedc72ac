"""The kinds of answers in a record: values, numbers and names."""
