from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.window.frame import Edit, Frame, Pass
from headwater.window.policy import Level, Lines, WindowPolicy
from headwater.window.prices import Prices
from headwater.window.schedule import Item, Plan, earliest, plan, worthwhile

LINES = WindowPolicy(output_reserve=0).lines(200_000)
WARM = Frame(identity="m", asked=1_000.0, size=100_000)


def edit(tag: int, start: int, gain: int, waited: int = 0) -> Item:
    return Item(tag, Edit.OFFLOAD, start, gain, waited)


@st.composite
def queues(draw: st.DrawFn) -> list[Item]:
    items: list[Item] = []
    start = 0
    for tag in range(1, draw(st.integers(0, 8)) + 1):
        start += draw(st.integers(0, 5_000))
        gain = draw(st.integers(1, 3_000))
        items.append(edit(tag, start, gain, draw(st.integers(0, 60))))
        start += gain
    return items


prices = st.builds(
    lambda a, b: Prices(min(a, b), max(a, b)), st.sampled_from([0.0, 0.1, 0.5]), st.sampled_from([1.0, 1.25])
)


def brute_force(items: Sequence[Item], cached: int, price: Prices) -> int | None:
    """The rule as it is written: the earliest p whose rent, the next included, pays for moving from p."""
    for index, first in enumerate(items):
        behind = [item for item in items if item.start >= first.start and item.tag >= first.tag]
        rent = sum(price.read * item.gain * item.waited for item in behind)
        rent += sum(price.read * item.gain for item in behind)
        remain = max(0, cached - first.start - sum(item.gain for item in behind))
        if rent >= (price.write - price.read) * remain - 1e-9:
            return index
    return None


@given(queues(), st.integers(0, 60_000), prices)
def test_g13_the_position_is_the_earliest_that_pays(items: list[Item], cached: int, price: Prices) -> None:
    found, expected = earliest(items, cached, price), brute_force(items, cached, price)
    if found != expected:
        # Sums in another order may differ in the last bit, at a tie only.
        assert expected is not None
        assert brute_force(items, cached + 1, price) == found


def test_g5_rent_grows_until_it_buys() -> None:
    # 10,000 tokens stay behind; moving them costs 1.15 x 10,000, an item of 1,000 pays 100 a request.
    paid = [earliest([edit(1, 0, 1_000, waited)], 11_000, Prices()) for waited in (0, 113, 114, 200)]
    assert paid == [None, None, 0, 0]


def test_g5_an_edit_at_the_very_end_moves_at_once() -> None:
    items = [edit(1, 0, 500), edit(2, 90_000, 1_000)]
    assert earliest(items, 91_000, Prices()) == 1
    assert earliest([], 91_000, Prices()) is None


@given(queues(), st.integers(0, 60_000))
def test_g5_without_a_cache_everything_moves_at_once(items: list[Item], cached: int) -> None:
    assert earliest(items, cached, Prices.uncached()) == (0 if items else None)


@given(queues(), st.integers(0, 60_000), prices, st.integers(1, 50))
def test_g5_waiting_never_makes_a_move_less_worth_it(
    items: list[Item], cached: int, price: Prices, more: int
) -> None:
    now = earliest(items, cached, price)
    later = earliest([item._replace(waited=item.waited + more) for item in items], cached, price)
    assert now is None or (later is not None and later <= now)


def decide(
    items: Sequence[Item],
    *,
    frame: Frame = WARM,
    level: Level = Level.NORMAL,
    price: Prices | None = None,
    now: float = 1_100.0,
    identity: str = "m",
    lines: Lines = LINES,
) -> Plan:
    return plan(frame, items, level=level, lines=lines, prices=price or Prices(), now=now, identity=identity)


SMALL = [edit(1, 1_000, 300), edit(2, 5_000, 400)]
LARGE = [edit(1, 1_000, 12_000), edit(2, 14_000, 9_000)]
END = [edit(1, 1_000, 300), edit(2, 99_000, 1_000)]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (decide(SMALL), (Pass.DEFER, [], "warm")),
        (decide([]), (Pass.DEFER, [], "nothing")),
        (decide([], level=Level.EXHAUSTED), (Pass.DEFER, [], "nothing")),
        (decide([], now=9e9), (Pass.FOLD, [], "cold")),
        (decide([], frame=WARM.with_(asked=None)), (Pass.DEFER, [], "nothing")),
        (decide([], price=Prices.uncached(), now=9e9), (Pass.DEFER, [], "nothing")),
        (decide(SMALL, price=Prices.uncached(), now=9e9), (Pass.EXECUTE, [1, 2], "cold")),
        (decide(SMALL, identity="other"), (Pass.FOLD, [1, 2], "identity")),
        (decide([], identity="other"), (Pass.FOLD, [], "identity")),
        (decide(SMALL, now=1_300.0), (Pass.DEFER, [], "warm")),
        (decide(SMALL, now=1_301.0), (Pass.FOLD, [1, 2], "cold")),
        (decide(SMALL, frame=WARM.with_(asked=None)), (Pass.EXECUTE, [1, 2], "cold")),
        (decide(SMALL, price=Prices(ttl=3_600.0), now=1_301.0), (Pass.DEFER, [], "warm")),
        (decide(SMALL, level=Level.COMPACT), (Pass.EXECUTE, [1, 2], "line")),
        (decide(SMALL, level=Level.EXHAUSTED), (Pass.EXECUTE, [1, 2], "line")),
        (decide(SMALL, level=Level.OFFLOAD), (Pass.DEFER, [], "warm")),
        (decide(LARGE, level=Level.OFFLOAD), (Pass.EXECUTE, [1, 2], "line")),
        (decide(LARGE), (Pass.DEFER, [], "warm")),
        (decide(END), (Pass.EXECUTE, [2], "rent")),
        (decide(SMALL, price=Prices.uncached(), now=1_000.0), (Pass.EXECUTE, [1, 2], "rent")),
        (decide(SMALL, frame=Frame(asked=1_000.0, size=100_000)), (Pass.DEFER, [], "warm")),
    ],
)
def test_g10_g11_g12_the_pass_follows_the_table(case: Plan, expected: tuple[Pass, list[int], str]) -> None:
    assert (case.kind, list(case.edits), case.reason) == expected


def test_g35_a_fold_drains_everything_and_never_defers() -> None:
    drained = decide([*SMALL, *END], identity="other")
    assert set(drained.edits) == {item.tag for item in [*SMALL, *END]}


def test_users_2_a_forced_pass_frees_enough_that_the_next_is_far() -> None:
    enough = worthwhile(LINES)
    assert enough == (LINES.compact - LINES.offload) // 2 == 20_000
    assert decide([edit(1, 0, enough)], level=Level.OFFLOAD).moves
    assert not decide([edit(1, 0, enough - 1)], level=Level.OFFLOAD).moves


def test_g10_a_plan_moves_when_it_changes_what_was_sent() -> None:
    assert not Plan(Pass.DEFER, {}, "warm").moves
    assert Plan(Pass.FOLD, {}, "identity").moves
    assert Plan(Pass.EXECUTE, {1: Edit.DROP}, "rent").moves


@given(queues(), st.sampled_from(list(Level)), st.floats(0, 1e6))
def test_m2_planning_is_pure(items: list[Item], level: Level, now: float) -> None:
    assert decide(items, level=level, now=now) == decide(list(items), level=level, now=now)


@given(queues(), st.sampled_from(list(Level)), st.floats(0, 1e6))
def test_g13_edits_are_moved_from_one_position_on(items: list[Item], level: Level, now: float) -> None:
    moved = list(decide(items, level=level, now=now).edits)
    assert moved == [item.tag for item in items][len(items) - len(moved) :]
