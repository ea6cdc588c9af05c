"""Leases, back-off and account of background runs, between threads, processes and crashes."""

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.memory.runs import LONGEST_PAUSE, Runs, pause_after

_HOLD = """
import os, sys
from pathlib import Path
from headwater.memory.runs import Runs
runs = Runs(Path(sys.argv[1]))
print(runs.take("s", "other", 300.0), flush=True)
sys.stdin.readline()
if sys.argv[2] == "killed":
    os._exit(9)
"""


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("end", ["killed", "ended"])
def test_g15_two_processes_one_lease(tmp_path: Path, end: str) -> None:
    """One process at a time; who ends gives it back, who is killed holds it until it runs out."""
    path = tmp_path / "runs.sqlite"
    command = [sys.executable, "-c", _HOLD, str(path), end]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "True"
        mine = Runs(path)
        assert not mine.take("s", "mine", 300.0)
        assert mine.take("another", "mine", 300.0), "a lease is of one session"
        other.communicate("\n")
    later = Runs(path)
    assert later.take("s", "mine", 300.0) is (end == "ended")
    base = later.clock()
    later.clock = lambda: base + 301
    if end == "killed":
        assert later.take("s", "mine", 300.0)
        assert "ended before" in later.reports("s")[0]["reason"]
    later.close()
    mine.close()


def test_g15_failures_pause_longer_and_a_success_forgets_them(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs.sqlite", clock := Clock())
    for failures, pause in [(1, 30.0), (2, 60.0), (3, 120.0)]:
        assert runs.take("s", "h", 300.0)
        runs.end("s", "h", failed=True, spent=10, report={"event": "historian_failed"})
        assert runs.standing("s") == (False, pause, failures, 10 * failures)
        assert not runs.take("s", "h", 300.0)
        assert runs.rests("s")
        clock.now += pause + 1
    assert [r["failures"] for r in runs.reports("s")] == [1, 2, 3]
    assert runs.reports("s") == [], "each is given out once"
    assert runs.take("s", "h", 300.0)
    runs.end("s", "h", failed=False)
    assert runs.standing("s").failures == 0
    assert pause_after(99) == LONGEST_PAUSE
    runs.close()


def test_a_run_that_was_called_off_writes_nothing_more(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs.sqlite")
    assert runs.take("s", "h", 300.0)
    assert runs.live("s")
    assert not runs.wait(0.0)
    runs.close()
    assert runs.wait(0.0)
    assert not runs.renew("s", "h", 300.0, spent=5)
    runs.end("s", "h", failed=True)
    with runs.writing("s", "h") as allowed:
        assert not allowed
    assert runs.standing("s") == (False, 0.0, 0, 0)
    runs.close()


def test_a_lease_that_ran_out_is_another_holders(tmp_path: Path) -> None:
    clock = Clock()
    one, two = (Runs(tmp_path / "runs.sqlite", clock) for _ in range(2))
    assert one.take("s", "one", 300.0)
    clock.now += 301
    assert two.take("s", "two", 300.0)
    assert not one.renew("s", "one", 300.0, spent=7), "but what it spent is on the account"
    assert two.standing("s").spent == 7
    one.close()
    two.close()
