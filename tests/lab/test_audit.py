"""The books of a replay balance: parts and wholes, and what the strict providers booked (E4)."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.accounts import Asking, audit, audited
from headwater.lab.provider import Totals
from headwater.lab.replay import replay
from headwater.window import Prices, WindowPolicy
from tests.lab.test_account import session

SESSIONS = Path(__file__).parents[2].parent / "shared" / "data" / "sessions"
SMALL = 60_000
"""Bytes: a size that replays in a second or two; `python -m benchmarks accounts` has all sessions."""


def test_e4_an_audit_finds_a_figure_that_is_off() -> None:
    prices = Prices()
    report = replay(session(12), WindowPolicy(window=8_000), prices)
    assert audit(report, Totals(), prices).wrong == ()
    off = replace(report, cost=report.cost + 1)
    assert [text.split(":")[0] for text in audit(off, Totals(), prices).wrong] == ["cost"]
    assert audit(report, Totals(requests=1, input_tokens=9), prices).wrong != ()


@pytest.mark.skipif(not SESSIONS.exists(), reason="needs ../shared")
def test_e4_the_books_balance_on_the_smallest_session_of_each_source() -> None:
    for folder in sorted(SESSIONS.iterdir()):
        smallest = min(folder.glob("*.jsonl"), key=lambda p: p.stat().st_size, default=None)
        if smallest is not None and smallest.stat().st_size <= SMALL:
            found = audited(Asking(smallest, 8_000))
            assert found.wrong == ()
            assert found.compared > 7 * found.steps > 0
