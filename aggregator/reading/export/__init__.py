"""Published estimates taken away: as files, and as tables for Python."""
