"""The life of a worker process: its liveness, its watchdog and its metrics."""
