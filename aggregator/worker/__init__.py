"""The worker, which joins all parts of the daemon."""
