"""`make stack`: run the stack of deploy/compose.yaml, watch it in calm, then drill each failure.

With SECURED=1 it has three brokers with TLS, SCRAM and the access lists of docs/operating.md.
"""

import argparse
import os
import sys

import pytest

from tests.brokers import Unavailable
from tests.deploy.dockerfile import build_layer
from tests.deploy.stack.campaign import Campaign
from tests.deploy.stack.drills import DRILLS
from tests.deploy.stack.images import BUILT
from tests.deploy.stack.runners import Runc, best_runner
from tests.deploy.stack.stack import Stack, enter


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.stack", description=__doc__)
    names = [drill.name for drill in DRILLS]
    parser.add_argument("--calm", type=float, default=600, metavar="SECONDS", help="calm before the drills (600)")
    parser.add_argument("--drill", action="append", choices=names, help="a drill to run; repeatable (default: all)")
    parser.add_argument("--pages", action="store_true", help="first run each command of each runbook in calm")
    parser.add_argument("--alone", action="store_true", help="run no second installation")
    hasten = "divide each wait of alerts and pages, and look every 5 s (1)"
    parser.add_argument("--hasten", type=float, default=1, metavar="FACTOR", help=hasten)
    parser.add_argument("--processes", action="store_true", help="do not use runc")
    arguments = parser.parse_args()
    runner = best_runner(plain=arguments.processes)
    if isinstance(runner, Runc) and BUILT not in os.environ:
        os.environ[BUILT] = str(build_layer())
    enter()
    print(f"the stack runs as {runner.name}", flush=True)
    drills = [drill for drill in DRILLS if arguments.drill is None or drill.name in arguments.drill]
    try:
        with_logins = os.environ.get("SECURED") == "1"
        with Stack(runner, arguments.hasten, second=not arguments.alone, with_logins=with_logins) as stack:
            return Campaign(stack).run(arguments.calm, drills, pages=arguments.pages)
    except (Unavailable, pytest.skip.Exception, pytest.fail.Exception) as error:
        sys.stderr.write(f"the stack cannot run here: {error}\n")
        return 3


if __name__ == "__main__":
    sys.exit(main())
