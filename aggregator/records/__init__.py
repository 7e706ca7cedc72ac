"""The records, which writers and readers share."""
