"""The watermarks of all source partitions: up to where each has closed its panes."""


class Watermarks:
    """The watermarks of the source partitions of one query. None of them falls."""

    def __init__(self, partitions: int) -> None:
        self._least: int | None = None
        """The least end, if every partition has one."""
        self._common_end: int | None = None
        """The end that the clocks of all partitions have passed."""
        self._ends: list[int | None] = [None] * partitions
        self._behind = partitions
        """Number of partitions whose watermark is the least. The others are ahead."""

    @property
    def closed_through(self) -> int | None:
        """The end of the newest pane that is closed on all partitions."""
        if self._least is None or self._common_end is None:
            return self._least if self._common_end is None else self._common_end
        return max(self._least, self._common_end)

    def put_common(self, end: int) -> None:
        """Raise the watermarks of all partitions at once."""
        if self._common_end is None or end > self._common_end:
            self._common_end = end

    def put(self, partition: int, end: int) -> None:
        """Raise the watermark of a partition."""
        previous_end = self._ends[partition]
        if previous_end is not None and previous_end >= end:
            return

        self._ends[partition] = end
        if previous_end == self._least:
            self._behind -= 1
        # Only the last partition that is behind moves the minimum. All others skip this look at every partition.
        if not self._behind:
            ends = [partition_end for partition_end in self._ends if partition_end is not None]
            self._least = min(ends)
            self._behind = ends.count(self._least)
