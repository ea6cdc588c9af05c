"""A few of the kills of `python -m benchmarks crash`, in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

TRIALS = """
import json
from benchmarks.crash import run

reports = run(2, 0)
print(json.dumps([[r.trials, r.lost, r.unusable, [o.error for o in r.opened]] for r in reports.values()]))
"""


def test_killed_processes_lose_no_fact_that_was_acknowledged_and_the_folder_opens() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRIALS], capture_output=True, text=True, check=False, timeout=300,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[2, 0, 0, ["", ""]], [0, 0, 0, []]]
