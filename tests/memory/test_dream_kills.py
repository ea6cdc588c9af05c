"""A dreamer that is killed, and two that start together, in processes of their own; see `dream_trials`."""

import json
import subprocess
import sys
from pathlib import Path

KILLS, RACES = 10, 2


def test_g16_killed_before_any_call_to_the_disk_it_ends_as_if_it_had_run_through_and_two_dream_once() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.memory.dream_trials", str(KILLS), str(RACES)],
        capture_output=True, text=True, check=False, timeout=600, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["outcome"], found["runs"], found["survived"]) == ("done", 1, 0)
    assert found["calls"] > 100
    assert found["wrong"] == []
    assert len(found["outcomes"]) == RACES
    assert all("done" in pair and pair != ["done", "done"] for pair in found["outcomes"])
