"""Maps of unknown strings that came before their final, because they are in another topic."""

from collections import OrderedDict

from aggregator.records.maps_record import MapsKey

MOST = 16 << 20
"""Most bytes of maps that wait for their finals. Beyond it the oldest go."""


class EarlyMaps:
    """The records of maps that wait for their finals."""

    def __init__(self) -> None:
        self._values: OrderedDict[MapsKey, bytes] = OrderedDict()
        self._size = 0

    def put(self, place: MapsKey, value: bytes) -> None:
        """Keep the maps of a final that is not there yet."""
        self.pop(place)
        self._values[place] = value
        self._size += len(value)
        while self._size > MOST:
            self.pop(next(iter(self._values)))

    def pop(self, place: MapsKey) -> bytes | None:
        """Return the maps of a final, and forget them."""
        value = self._values.pop(place, None)
        self._size -= len(value or b"")
        return value
