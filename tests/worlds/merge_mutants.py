"""Planted bugs of merging, of the rule of small crowds, and of definitions that change."""

from tests.worlds.mutant import Mutant

PUBLISHER = "aggregator.publishing.finals.publisher:FinalPublisher."
PARTS = "aggregator.merging.pane_parts:WaitingPane."
MARKS = "aggregator.merging.marks:QueryMarks."
VERSIONS = "hubbub.definitions.versions:Versions."

_WRITES = "    other_writes = [*state.totals(), *chain.from_iterable(states.values())]\n"

MERGE_MUTANTS = (
    Mutant(
        "merged not awaited",
        PUBLISHER + "_settle",
        _WRITES,
        _WRITES + "    self.delete(state, list(state.replaced_keys()))\n    self.deletions.flush()\n",
        7,
    ),
    Mutant("merged not written", PUBLISHER + "_settle", "[*state.totals(), ", "[*(state.totals() and ()), ", 7),
    Mutant("repeated snapshot added", PARTS + "add", "if self.has_total or partition in self._added:", "if False:", 7),
    Mutant("merged added to its parts", PARTS + "add", "if partition == ALL:", "if False:", 7),
    Mutant(
        "withheld window counts as a mark",
        MARKS + "withheld",
        "elif end in marks and",
        "elif True or end in marks and",
        8,
    ),
    Mutant("small window is shown", MARKS + "withheld", "if fewest(n) < crowd:", "if False:", 8),
    Mutant(
        "a provisional record after its final",
        PUBLISHER + "_send",
        "[OutboxRecord(provisional_key(name), None) for name, _ in answer.records]",
        "[OutboxRecord(provisional_key(name), value) for name, value in answer.records]",
        8,
    ),
    Mutant(
        "definitions read after the reports that they concern",
        "hubbub.definitions.follower:Follower.cover",
        "while time_ms > self._covered:",
        "while False:",
        10,
    ),
    Mutant("a version of the future refuses", VERSIONS + "known_at", "if clock is None:", "if True:", 10),
    Mutant(
        "a retired query is late until it is forgotten",
        VERSIONS + "is_over",
        "return self.retired",
        "return False and self.retired",
        10,
    ),
    Mutant("a late report of a retired query stays late", VERSIONS + "is_settled", " and self.retired is None", "", 10),
    Mutant(
        "a definition is forgotten while its reports are read again",
        "aggregator.counting.partition:SourcePartition.is_over",
        "self.clock is None or versions.closed_through(self.clock) < end",
        "False",
        10,
    ),
)
