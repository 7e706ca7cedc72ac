"""From windows to records and alerts."""
