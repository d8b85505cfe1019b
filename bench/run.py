"""Runs all measuring scripts, each in a process of its own, and prints one table.

python -m bench [--quick] [--only NAME]... [--json FILE] [--check]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.measure import Row, row_of, table  # noqa: E402  # found only now

SCRIPTS = (
    "attempts", "peer", "breakpoints", "snapshot", "verdicts", "storm", "parked", "listing",
    "recovery", "start", "watchdog", "instances", "sandboxes", "population", "hooks", "outside",
    "api", "agents", "masking", "finished", "pages",
    "live_pages", "repositories", "fleet",
)  # fmt: skip

PATIENCE_S = 3600.0
"""The 1,000 lifecycles on a Temporal server take the longest."""


def main() -> int:
    """Measure what is asked for; 0 unless something broke, with --check also unless all is met."""
    options = _options()
    rows: list[Row] = []
    broken = []
    for name in options.only or SCRIPTS:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        found = _measured(name, quick=options.quick)
        if found is None:
            broken.append(name)
        else:
            rows += found
    print(table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if broken:
        print(f"broken, see above: {', '.join(broken)}", file=sys.stderr)
        return 2
    return 1 if options.check and not all(row.ok for row in rows) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few samples: does it run at all?")
    parser.add_argument("--only", action="append", choices=SCRIPTS, help="only this script")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to a file, too")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a figure is missed")
    return parser.parse_args()


def _measured(name: str, *, quick: bool) -> list[Row] | None:
    command = [sys.executable, "-m", f"bench.{name}", *(["--quick"] if quick else [])]
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, check=False, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        print(f"{name} did not end within {PATIENCE_S:g} s", file=sys.stderr)
        return None
    if done.returncode != 0:
        return None
    return [row_of(each) for each in json.loads(done.stdout)]


if __name__ == "__main__":
    sys.exit(main())
