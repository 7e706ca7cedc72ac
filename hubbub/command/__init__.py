"""Options, logs, metrics and exit codes of all commands."""
