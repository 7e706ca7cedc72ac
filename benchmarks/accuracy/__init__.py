"""Accuracy against the papers: studies, each a module, and the page that shows them."""
