"""A worker of the model closes panes, writes clock records, and publishes."""

PARTITIONS = 2
"""Partitions of `reports`, and homes. Each home has one query."""


class Worker:
    """A worker with one assignment has parts that count and merge, and one view of the clocks."""

    def __init__(self, model, name, owned):
        self.model = model
        self.name = name
        self.owned = owned
        self.frozen_until = 0
        self.last_step = None
        """The step at which a woken worker learns that it was replaced."""
        self.place = 0
        self.clocks = [0] * PARTITIONS
        self.offsets = [0] * PARTITIONS
        self.others = {}
        """The clock records of other writers that this one has read."""
        self.number = 0
        self.former_key = None
        self.parts = [self._count(), *(self._merge(home) for home in owned)]

    def step(self):
        self._read_clocks()
        next(self.model.random.choice(self.parts))

    def _read_clocks(self):
        model = self.model
        end = model.clocks.end(model.step)
        end = min(end, self.place + model.random.choice((1, 3, 100)))
        for _, entry in model.clocks.read(self.place, end):
            self._note(entry)
        self.place = max(self.place, end)

    def _note(self, entry):
        if entry.value is None:
            self.others.pop(entry.key, None)
            return
        clocks, offsets = entry.value
        self.clocks = [max(mine, clocks.get(p, 0)) for p, mine in enumerate(self.clocks)]
        self.offsets = [max(mine, offsets.get(p, 0)) for p, mine in enumerate(self.offsets)]
        if entry.key[0] != self.name:
            self.others[entry.key] = entry.value

    def _count(self):
        """Close panes, in the order of the rules."""
        model = self.model
        ends = {p: max(model.progress[p]) for p in self.owned}
        own_offsets = [0] * PARTITIONS
        yield from self._catch_up()
        yield from self._say(ends, own_offsets)
        while True:
            yield
            target = {p: model.time[p] for p in self.owned}
            if not model.keeps("snapshots before clock"):
                yield from self._say(target, own_offsets)
            yield from self._close(ends, target, own_offsets)
            ends = target
            if not model.keeps("clock before progress"):
                self._progress(ends)
                yield
            yield from self._say(ends, own_offsets)
            self._progress(ends)

    def _catch_up(self):
        """Read the clocks up to an empty record of this writer, since the end of a new leader may be too low."""
        model = self.model
        end = model.clocks.append(model.step, (self.name, "empty"), ({}, {}))
        while self.place <= end:
            yield
        model.clocks.append(model.step, (self.name, "empty"), None)

    def _close(self, ends, target, own_offsets):
        model = self.model
        for p in self.owned:
            for pane in range(ends[p], target[p]):
                for home in range(PARTITIONS):
                    own_offsets[home] = max(own_offsets[home], 1 + model.snapshot(home, pane, p))
                    yield

    def _progress(self, ends):
        for p, clock in ends.items():
            self.model.progress[p].append(clock)

    def _say(self, clocks, own_offsets):
        """Write a clock record, and delete those that it replaces."""
        model = self.model
        read = self.offsets if model.keeps("offsets read") else [0] * PARTITIONS
        offsets = {home: max(own_offsets[home], read[home]) for home in range(PARTITIONS)}
        if not model.keeps("offsets"):
            offsets = {}
        if not model.keeps("own deletion") and self.former_key is not None:
            model.clocks.append(model.step, self.former_key, None)
            yield
        key = self.name, self.number if model.keeps("key a record") else 0
        self.number += 1
        model.clocks.append(model.step, key, (dict(clocks), offsets))
        yield
        for name in self._obsolete(clocks, offsets):
            model.clocks.append(model.step, name, None)
            self.others.pop(name, None)
        if self.former_key not in (None, key):
            model.clocks.append(model.step, self.former_key, None)
        self.former_key = key
        yield

    def _obsolete(self, clocks, offsets):
        keeps = self.model.keeps
        newest_clocks = [max(mine, clocks.get(p, 0)) for p, mine in enumerate(self.clocks)]
        for key, (its_clocks, its_offsets) in list(self.others.items()):
            is_covered = all(offsets.get(home, 0) >= offset for home, offset in its_offsets.items())
            margin = 1 if keeps("greater clock") else 0
            is_passed = all(newest_clocks[p] >= clock + margin for p, clock in its_clocks.items())
            if (is_covered or not keeps("covered offsets")) and is_passed:
                yield key

    def _merge(self, home):
        """Publish the panes of one home in their order, each with its snapshots in the home."""
        model = self.model
        log = model.homes[home]
        place, newest, panes = 0, -1, {}
        while True:
            yield
            end = min(log.end(model.step), place + model.random.choice((1, 4, 100)))
            for _, (key, value, _) in log.read(place, end):
                if key[0] == "state":
                    newest = max(newest, key[1])
                elif value is not None:
                    panes.setdefault(key[1], set()).add(key[2])
                else:
                    panes.get(key[1], set()).discard(key[2])
            place = max(place, end)
            clock = min(self.clocks) if model.keeps("least clock") else max(self.clocks)
            has_passed = place >= self.offsets[home] or not model.keeps("passed")
            is_at_end = place >= log.end(model.step) or not model.keeps("at the end")
            if not (newest + 1 < clock and has_passed and is_at_end):
                continue
            newest += 1
            yield from self._publish(home, newest, panes.pop(newest, set()))

    def _publish(self, home, pane, parts):
        model = self.model
        model.published[home].setdefault(pane, []).append(len(parts))
        model.homes[home].append(model.step, ("state", pane), True)
        yield
        for p in range(PARTITIONS):
            model.homes[home].append(model.step, ("snapshot", pane, p), None)
