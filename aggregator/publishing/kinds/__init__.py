"""The kinds of answers: values, numbers and names."""
