"""The gate that decides which records count."""
