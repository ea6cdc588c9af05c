"""Watermark: an estimate, a level, one route; each remedy once, and never in circles."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.nodes.watermark import REMEDIES, route, route_of, watermark
from headwater.window.frame import Edit, Pass
from headwater.window.policy import Level, WindowPolicy
from headwater.window.prices import Prices
from headwater.window.schedule import Plan
from tests.nodes.bench import CONFIG, WINDOW, Clock, after, engine, session, state_of

QUIET = Plan(Pass.DEFER, {}, "nothing")
MOVING = Plan(Pass.EXECUTE, {3: Edit.OFFLOAD}, "line")
levels = st.sampled_from(list(Level))
plans = st.sampled_from([QUIET, MOVING])


@given(levels, plans, st.booleans(), st.booleans())
def test_m8_whatever_the_plan_a_step_ends_and_offload_comes_first(
    level: Level, decided: Plan, tell: bool, economy: bool
) -> None:
    """M8: following the routes with nothing getting better ends within the level's remedies; offload, where
    there is something to offload, precedes summarize, and neither is tried twice.
    """
    step: dict[str, Any] = {"economy": economy} if level is Level.COMPACT else {}
    path: list[str] = []
    while (there := route_of(level, decided, step, tell=tell)) not in ("agent", "halt"):
        path.append(there)
        step["tried"] = list(path)
        assert len(path) <= len(REMEDIES[level])
    assert there == ("halt" if level is Level.EXHAUSTED else "agent")
    assert path.count("offload") == (1 if decided.moves else 0)
    assert path.count("summarize") <= 1
    if "summarize" in path:
        assert tell
        assert level >= Level.COMPACT
        assert not decided.moves or path.index("offload") < path.index("summarize")


def test_m7_only_exhausted_ever_halts() -> None:
    spent = {"tried": ["offload", "reclaim", "summarize", "reclaim"]}
    assert route_of(Level.EXHAUSTED, MOVING, spent) == "halt"
    assert [route_of(level, MOVING, spent) for level in (Level.NORMAL, Level.OFFLOAD, Level.COMPACT)] == [
        "agent"
    ] * 3


def test_case_14_nothing_to_offload_goes_on_to_the_next_remedy() -> None:
    assert route_of(Level.COMPACT, QUIET, {}) == "summarize"
    assert route_of(Level.EXHAUSTED, QUIET, {}) == "reclaim"
    assert route_of(Level.OFFLOAD, QUIET, {}) == "agent"


@pytest.mark.parametrize(
    ("arcs", "level", "there"),
    [
        (2, "NORMAL", "agent"),
        (6, "OFFLOAD", "offload"),
        (8, "COMPACT", "offload"),
        (12, "EXHAUSTED", "offload"),
    ],
)
def test_m2_the_level_of_a_session_and_where_it_leads(
    tmp_path: Path, arcs: int, level: str, there: str
) -> None:
    """M2: exactly one level for an estimate, by the lines of the window."""
    made = engine(tmp_path)
    state = state_of(made, session(arcs, 420), sent=2 * arcs - 1)
    step = watermark(made)(state, CONFIG)["step"]
    assert step["level"] == level
    assert step["level"] == made.lines.level(step["estimate"]).name
    assert step["route"] == there == route({"messages": [], "step": step})


def test_m17_a_reported_ratio_scales_the_estimate(tmp_path: Path) -> None:
    """M17: Claude counts more than we do; what it reported raises every estimate after it."""
    made = engine(tmp_path)
    messages = session(3)
    plain = watermark(made)(state_of(made, messages), CONFIG)["step"]["estimate"]
    scaled = watermark(made)(state_of(made, messages, scale=1.5), CONFIG)["step"]["estimate"]
    assert scaled == pytest.approx(1.5 * plain, abs=2)


def test_g5_warm_is_left_alone_and_cold_moves_at_once(tmp_path: Path) -> None:
    """G5: below the lines edits wait while the cache lives, and go together when it has expired."""
    clock = Clock()
    policy = WindowPolicy(window=128_000, keep_messages=2, keep_tags=2)
    made = engine(tmp_path, policy, clock=clock, prices=Prices(ttl=300))
    state = state_of(made, session(6), sent=11, asked=clock.now, size=60_000)
    warm = watermark(made)(state, CONFIG)
    assert (warm["step"]["route"], warm["step"]["pass"]) == ("agent", "defer")
    clock.now += 301
    cold = watermark(made)(after(state, warm), CONFIG)
    assert (cold["step"]["route"], cold["step"]["reason"]) == ("offload", "cold")
    assert list(cold["step"]["edits"]) == [3, 5, 7, 9, 11]


def test_g12_another_identity_folds_and_drains_the_queue(tmp_path: Path) -> None:
    policy = WindowPolicy(window=128_000, keep_messages=2, keep_tags=2)
    clock = Clock()
    made = engine(tmp_path, policy, clock=clock)
    state = state_of(made, session(6), sent=11, asked=clock.now, size=60_000, identity="another")
    step = watermark(made)(state, CONFIG)["step"]
    assert (step["kind"], step["reason"], step["route"]) == ("fold", "identity", "offload")
    assert len(step["edits"]) == 5


def test_never_means_never(tmp_path: Path) -> None:
    made = engine(
        tmp_path, WindowPolicy(window=WINDOW, summarise="never", min_result=10**6, min_arguments=10**6)
    )
    for arcs in (8, 12):
        state = state_of(made, session(arcs, 420), session=f"s{arcs}")
        seen = []
        for _ in range(6):
            update = watermark(made)(state, CONFIG)
            there = update["step"]["route"]
            seen.append(there)
            if there in ("agent", "halt"):
                break
            update["step"]["tried"] = [*update["step"].get("tried", ()), there]
            state = after(state, update)
        assert "summarize" not in seen
        assert seen[-1] in ("agent", "halt")
