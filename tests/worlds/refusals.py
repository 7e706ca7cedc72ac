"""The rejects must name each refused record with the same bytes each time, and no counted record."""


def faults(world, reasons, records):
    """Yield the step and the text of each fault of the rejects, given the reason of each refused record."""
    contents = {}
    for record in records:
        content = record.value, record.headers
        if contents.setdefault(record.key, content) != content:
            yield record.step, f"{record.key!r} is refused in two ways"
        elif record.key not in reasons:
            yield record.step, f"{record.key!r} counts, and is named as refused"
        elif dict(record.headers)["reason"] != reasons[record.key].encode():
            yield (
                record.step,
                f"{record.key!r} is refused for {dict(record.headers)['reason']!r}, not for {reasons[record.key]}",
            )
    for key in sorted(reasons.keys() - contents.keys()):
        yield world.steps, f"{key!r} is refused for {reasons[key]}, and not named"
