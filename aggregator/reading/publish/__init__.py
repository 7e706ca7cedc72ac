"""The public page of all questions."""
