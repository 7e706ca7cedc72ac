"""From snapshots to windows."""
