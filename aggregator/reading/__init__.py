"""Commands that read the published records: `tail` shows them, `export` writes tables, `audit` verifies them."""
