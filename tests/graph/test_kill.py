"""kill -9 in the middle of a fan-out, then resume; `python -m benchmarks kill` does it at 50 moments."""

import sys

import pytest

from benchmarks.kill import CHILDREN, once


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("moment", [0.35, 0.75])
def test_m26_a_killed_parent_runs_only_unfinished_children_again(moment: float) -> None:
    outcome = once(moment)
    assert outcome.right, outcome
    assert sum(outcome.begun.values()) >= CHILDREN
