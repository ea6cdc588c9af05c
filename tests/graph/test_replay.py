"""Recorded sessions of every source through the real graph: valid, inside the window, every byte kept."""

from collections import Counter
from dataclasses import replace as replaced
from pathlib import Path
from typing import Literal

import pytest

from headwater.lab.replay import replay
from headwater.lab.sessions import Session, find_anomalies, load_session
from headwater.window.policy import WindowPolicy

SHARED = Path(__file__).parents[2].parent / "shared"
SESSIONS = SHARED / "data" / "sessions"
# Longer ones are cut here: their first part has all their oddities, and the file is to run in minutes.
MOST_ROWS = 190

needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared")


def chosen() -> list[Path]:
    """The session with the fewest rows of every source."""
    if not SESSIONS.exists():
        return []
    folders = sorted(folder for folder in SESSIONS.iterdir() if folder.is_dir())
    return [min(folder.glob("*.jsonl"), key=lambda p: (_rows(p), p.name)) for folder in folders]


def _rows(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def load(path: Path, rows: int = MOST_ROWS) -> Session:
    session = load_session(path)
    kept = session.messages[:rows]
    return replaced(
        session,
        messages=kept,
        times=session.times[:rows],
        usage=session.usage[:rows],
        anomalies=list(find_anomalies(kept)),
        meta=session.meta[:rows],
    )


@needs_shared
def test_every_source_is_played_and_at_least_twelve_sessions_whole() -> None:
    paths = chosen()
    assert {path.parent.name for path in paths} == {f.name for f in SESSIONS.iterdir() if f.is_dir()}
    assert sum(_rows(path) <= MOST_ROWS for path in paths) >= 12


@needs_shared
def test_the_recorded_oddities_are_among_them() -> None:
    """Repeated ids, unanswered calls, empty results, roles in a row, late system messages: all go through."""
    found = Counter(a.split(":")[0] for path in chosen() for a in load(path).anomalies)
    assert {"consecutive_human", "empty_tool"} <= found.keys()
    assert len(found) >= 5, found


@needs_shared
@pytest.mark.parametrize("path", chosen(), ids=lambda path: path.parent.name)
@pytest.mark.parametrize(("window", "wire"), [(32_000, "openai"), (32_000, "anthropic"), (200_000, "openai")])
def test_a_recorded_session_goes_through(
    path: Path, window: int, wire: Literal["openai", "anthropic"]
) -> None:
    """M1, M17, E4: none refused, none over the window, all steps played, every message byte for byte."""
    session = load(path, MOST_ROWS if wire == "openai" else 100)
    report = replay(session, WindowPolicy(window=window), wire=wire)
    assert report.violations == ()
    assert report.totals.over_window == 0
    assert report.totals.refused == 0
    assert report.damaged == 0
    assert report.steps == report.recorded
    assert report.unfaithful == 0, "promise 2: a DEFER pass only ever appends"
