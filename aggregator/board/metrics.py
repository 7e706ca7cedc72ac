"""What Prometheus sees of a board."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """Each board's own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.read = Counter("hubbub_board_read", "Messages read", ["topic"], registry=registry)
        self.unreadable = Counter(
            "hubbub_board_unreadable", "Messages that could not be understood", ["topic"], registry=registry
        )
        self.requests = Counter("hubbub_board_requests", "Requests answered", ["route", "status"], registry=registry)
        self.listeners = Gauge("hubbub_board_listeners", "Who listens to events", registry=registry)
        self._windows = Gauge("hubbub_board_windows", "Final windows kept", registry=registry)
        self._memory = Gauge("hubbub_board_kept_bytes", "Memory of windows and truth, about", registry=registry)

    def keeps(self, windows: int, size: int) -> None:
        self._windows.set(windows)
        self._memory.set(size)
