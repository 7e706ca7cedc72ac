"""Run the models: python -m tests.worlds.models [--most N]. Each rule that a run leaves out must be missed."""

import argparse
import sys

from tests.worlds.models import clocks, spread

MODELS = {"clocks": clocks, "spread": spread}
MOST = 300


def first_fault(module, most, omitted_rules=()):
    """Return the first seed that fails, and why, or None."""
    for seed in range(most):
        fault = module.Model(seed, omitted_rules).run()
        if fault is not None:
            return seed, fault
    return None


def needed_rules(module):
    """Return the rules without which a run must fail."""
    return module.RULES.keys() - module.SPARE_RULES


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.worlds.models", description=__doc__)
    parser.add_argument("--most", type=int, default=MOST, help="runs of each model and of each rule that is left out")
    options = parser.parse_args(arguments)
    is_wrong = False
    for name, module in MODELS.items():
        for rule in ["", *module.RULES]:
            hit = first_fault(module, options.most, {rule} if rule else ())
            is_wrong |= (hit is None) == (rule in needed_rules(module))
            result = f"no fault in {options.most} runs" if hit is None else f"run {hit[0]}: {hit[1]}"
            sys.stdout.write(f"{name}, {f'without {rule!r}' if rule else 'all rules'}: {result}\n")
            sys.stdout.flush()
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
