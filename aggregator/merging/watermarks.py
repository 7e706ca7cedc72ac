"""The watermarks of all source partitions: up to where each has closed its panes."""


class Watermarks:
    """The watermarks of the source partitions of one query. None of them falls."""

    def __init__(self, partitions: int) -> None:
        self.closed_through: int | None = None
        """The end of the newest pane that is closed on all partitions."""
        self._ends: list[int | None] = [None] * partitions
        self._behind = partitions
        """Number of partitions whose watermark is `closed_through`. The others are ahead."""

    def put(self, partition: int, end: int) -> None:
        """Raise the watermark of a partition."""
        previous_end = self._ends[partition]
        if previous_end is not None and previous_end >= end:
            return

        self._ends[partition] = end
        if previous_end == self.closed_through:
            self._behind -= 1
        # Only the last partition that is behind moves the minimum. All others skip this look at every partition.
        if not self._behind:
            ends = [partition_end for partition_end in self._ends if partition_end is not None]
            self.closed_through = min(ends)
            self._behind = ends.count(self.closed_through)
