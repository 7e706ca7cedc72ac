"""Defaults of the board's options, which `hubbub check` and `hubbub plan` state too."""

RETENTION = 24 * 3600
"""Seconds for which a board keeps windows."""
MEMORY = 256 << 20
"""Bytes that a board uses for windows and true counts."""
