"""The story of a world: one line a step, with its actor, act and place."""

from itertools import groupby
from typing import NamedTuple


class Step(NamedTuple):
    """One step of a world."""

    at: float
    number: int
    """The number of records that the log has then."""
    kind: str
    details: tuple

    def line(self):
        """Return the line for the trace."""
        return f"{self.at:.4f} {self.kind} {' '.join(map(str, self.details))}"


def lines(steps, last):
    """Return the story up to a step: each fault, and the records of one writer in one partition together."""
    steps = [step for step in steps if step.number <= last]
    story = []
    for _, group in groupby(steps, _place):
        story.append(_line(list(group)))
    return story


def _place(step):
    if step.kind != "append":
        return step
    topic, partition, _, writer, key, _ = step.details
    return topic, partition, writer, key[1:].split("|")[0]


def _line(steps):
    """Return the line of steps that belong together."""
    step = steps[0]
    moment = f"{step.at:8.3f} s  "
    if step.kind != "append":
        actor, *words = _subject(step)
        return moment + f"{actor}: {' '.join(map(str, words))}"

    topic, partition, first, writer, _, _ = step.details
    last = steps[-1].details[2]
    offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
    values = [other.details[4:] for other in steps]
    verb = "deletes" if all(value == "-" for _, value in values) else "writes"
    keys = ", ".join(dict.fromkeys("a frame" if key == "None" else key[1:-1] for key, _ in values))
    return moment + f"{writer}: {verb} {keys}, in {topic.removeprefix('w.')} {partition}, {offsets}"


def _subject(step):
    """Return the actor of a step, and the words for its act."""
    match step.kind, step.details:
        case "start", [name]:
            return name, "starts"
        case "kill", [name, why]:
            return name, "is killed", why
        case "ended", [name, code, error]:
            return name, "ends with code", code, "" if error == "NoneType" else error
        case "fault", [kind, name, *details]:
            return "fault", kind, *(() if name is None else ("of", name)), *details
        case "hit", [kind, name]:
            return name, "meets the", kind
        case "generation", [number, *members]:
            return "group", "generation", number, *members
    return step.kind, *step.details
