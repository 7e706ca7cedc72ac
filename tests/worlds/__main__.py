"""Run worlds: python -m tests.worlds --seeds 0:100."""

import argparse
import hashlib
import json
import random
import sys
import time
from pathlib import Path

from tests.worlds import plan as plans
from tests.worlds import story
from tests.worlds.mix import MIXES
from tests.worlds.run import MIX, all_seeds, results, run_plan, run_world
from tests.worlds.shrink import Shrinker, failing

NONE = "none"
"""The name of no mutant, for a file that names one."""
FOLDER = Path("build/worlds")
"""The folder of the files that --shrink writes."""
WORLDS = 100
"""Worlds without --seeds and --faults."""
LARGEST = (1 << 63) - 1


def say(*lines):
    """Print these lines at once."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def span(text):
    """Return the seeds of a text A:B."""
    first, _, end = text.partition(":")
    try:
        seeds = range(int(first), int(end))
    except ValueError:
        raise argparse.ArgumentTypeError(f"use A:B with two whole numbers, got {text!r}") from None
    if not seeds or seeds[0] < 0 or seeds[-1] > LARGEST:
        raise argparse.ArgumentTypeError(f"use A:B with 0 <= A < B <= 2^63, got {text!r}")
    return seeds


def seed(text):
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= LARGEST:
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0 to 2^63 - 1, got {text!r}")
    return number


def positive(text):
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0:
        raise argparse.ArgumentTypeError(f"use a number above 0, got {text!r}")
    return number


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.worlds", description=__doc__)
    parser.add_argument("--seeds", type=span, metavar="A:B", help="these worlds, B not included")
    parser.add_argument("--seed", type=seed, metavar="S", help="one world")
    parser.add_argument("--faults", type=positive, metavar="N", help="worlds until so many faults are done")
    parser.add_argument("--hours", type=positive, metavar="H", help="worlds with new seeds for so many hours")
    parser.add_argument("--mix", default=MIX, choices=sorted(MIXES), help="how often each fault happens")
    parser.add_argument("--mutant", metavar="NAME", help="run with this planted bug, or with none if a file names one")
    parser.add_argument("--trace", action="store_true", help="print each step of the worlds")
    parser.add_argument("--shrink", action="store_true", help="make each failed world small, and write it to a file")
    parser.add_argument("--replay", metavar="FILE", help="run the world of a file that --shrink has written")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser, parser.parse_args(arguments)


def chosen_seeds(options):
    """Return the seeds to run, without end if faults or hours end the run."""
    if options.seed is not None:
        return [options.seed]
    if options.seeds is not None:
        return options.seeds
    if options.hours is not None:
        return all_seeds(random.SystemRandom().randrange(1 << 62))
    return all_seeds() if options.faults is not None else range(WORLDS)


def say_failure(result):
    first = result.first_violation
    say(f"FAIL seed={result.seed} mix={result.mix} check={first.check} step={first.step} {first.text}")


def say_shrunk(plan, result, mutant):
    """Make a failed world small, write its file, and print its story."""
    check = result.first_violation.check
    plan = Shrinker(failing(check, mutant=mutant)).shrink(plan)
    name = mutant.name if mutant is not None else None
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{plan.seed}{'-' + name.replace(' ', '-') if name else ''}.json"
    path.write_text(plan.text(check=check, mutant=name), encoding="utf-8")
    say_story(run_plan(plan, mutant=mutant, story=True))
    say(f"{len(plan.faults)} faults, {len(plan.frames)} records: {path}")


def say_story(result, *, is_trace=False):
    """Print the story of a world up to its first violation, or all of its steps."""
    if is_trace:
        say(*(step.line() for step in result.story))
    else:
        last_step = result.first_violation.step if result.violations else 0
        say(*story.lines(result.story, last_step))
    if result.violations:
        say_failure(result)


def replay(path, options, mutant):
    """Run the world of a file, with its mutant or that of the command. Return the exit code or an error."""
    try:
        plan, more = plans.read(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{path} is no file of --shrink: {error}"
    if options.mutant is None and more["mutant"] is not None:
        mutant = mutant_of(more["mutant"])
    result = run_plan(plan, mutant=mutant, story=not options.json)
    if not options.json:
        say_story(result, is_trace=options.trace)
    say_summary([result], options)
    return int(bool(result.violations))


def mutant_of(name):
    from tests.worlds.mutants import BY_NAME

    return BY_NAME[name]


def run(options, mutant=None):
    """Return the results of all chosen worlds, and print each failure at once."""
    deadline = time.monotonic() + 3600 * options.hours if options.hours else None
    if options.trace:
        worlds = (run_world(number, options.mix, mutant=mutant, story=True) for number in chosen_seeds(options))
    else:
        worlds = results(chosen_seeds(options), options.mix, mutant=mutant)

    faults = 0
    world_results = []
    for result in worlds:
        world_results.append(result)
        faults += result.faults
        say(*(step.line() for step in result.story))
        result.story = []
        if result.violations and not options.json:
            say_failure(result)
            if options.shrink:
                say_shrunk(plans.draw(result.seed, options.mix), result, mutant)
        if options.faults is not None and faults >= options.faults:
            break
        if deadline is not None and time.monotonic() > deadline:
            break
    return world_results


def say_summary(world_results, options):
    """Print the last line, or the JSON object."""
    faults = sum(result.faults for result in world_results)
    finals = sum(result.finals for result in world_results)
    cpu_seconds = sum(result.cpu_seconds for result in world_results)
    failures = [result for result in world_results if result.violations]
    if options.json:
        violations = [
            {"seed": result.seed, "check": violation.check, "step": violation.step, "text": violation.text}
            for result in failures
            for violation in result.violations
        ]
        traces = hashlib.sha256("".join(result.trace for result in world_results).encode()).hexdigest()
        report = {"worlds": len(world_results), "faults": faults, "finals": finals, "found": violations}
        say(json.dumps(report | {"cpu_seconds": round(cpu_seconds, 3), "trace": traces}))
        return
    say(
        f"{len(world_results)} worlds, {faults} faults, {finals} finals, {len(failures)} found, "
        f"{cpu_seconds:.1f} s of CPU, {1000 * cpu_seconds / max(1, faults):.1f} ms a fault"
    )


def main(arguments):
    parser, options = options_of(arguments)
    mutant = None
    if options.mutant not in (None, NONE):
        try:
            mutant = mutant_of(options.mutant)
        except KeyError:
            parser.error(f"there is no mutant {options.mutant!r}; tests/worlds/mutants.py has them")

    if options.replay is not None:
        code = replay(options.replay, options, mutant)
        return code if isinstance(code, int) else parser.error(code)
    start = time.monotonic()
    world_results = run(options, mutant)
    if not options.json:
        faults = sum(result.faults for result in world_results)
        say(f"{faults / (time.monotonic() - start):.1f} faults a second")
    say_summary(world_results, options)
    return int(any(result.violations for result in world_results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
