import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.window.decay import DecayError, budget_pressure, decay_tier, half_life

# 1-based positions at which P2, P3, P4 and P5 begin (requirements.md, G).
TABLE = [
    (50, 1.0, (6, 19, 33, 64)),
    (50, 2.0, (4, 10, 17, 33)),
    (50, 0.1, (50, 176, 319, 622)),
    (75, 1.0, (11, 36, 65, 126)),
    (100, 1.0, (21, 71, 128, 250)),
    (1, 1.0, (3, 6, 10, 17)),
]

ages = st.integers(0, 5000)
importances = st.integers(1, 100)
pressures = st.floats(0, 50, allow_nan=False)


@pytest.mark.parametrize(("importance", "pressure", "starts"), TABLE)
def test_g18_tiers_begin_where_the_table_says(
    importance: int, pressure: float, starts: tuple[int, ...]
) -> None:
    tiers = [decay_tier(index - 1, importance, pressure) for index in range(1, 700)]
    assert tuple(tiers.index(tier) + 1 for tier in (2, 3, 4, 5)) == starts


def test_g17_half_life_is_the_formula() -> None:
    assert half_life(50, 1.0) == 24.0
    assert half_life(75, 1.0) == 48.0
    assert half_life(100, 2.0) == 48.0
    assert half_life(25, 1.0) == 12.0
    assert math.isclose(half_life(60, 0.5), 24 * 2 ** (10 / 25) / 0.5)


def test_g17_pressure_has_a_floor_of_a_tenth() -> None:
    assert half_life(50, 0.0) == half_life(50, 0.1) == 240.0
    assert budget_pressure([50], 1_000_000) == 0.1
    assert budget_pressure([], 10) == 0.1


def test_g17_pressure_is_the_expected_cost_over_the_budget() -> None:
    # Ages 0..4 are P1 and 5 is P2 at pressure 1.
    assert budget_pressure([50] * 6, 1000) == (5 * 322 + 109) / 1000
    assert budget_pressure([50] * 64, 100) == (5 * 322 + 13 * 109 + 14 * 35 + 31 * 20) / 100


@given(ages, importances, pressures)
def test_g18_a_tier_is_one_to_five_and_the_newest_is_whole(
    age: int, importance: int, pressure: float
) -> None:
    assert 1 <= decay_tier(age, importance, pressure) <= 5
    assert decay_tier(0, importance, pressure) == 1


@given(ages, ages, importances, pressures)
def test_g18_older_is_never_told_in_more_detail(a: int, b: int, importance: int, pressure: float) -> None:
    older, newer = max(a, b), min(a, b)
    assert decay_tier(older, importance, pressure) >= decay_tier(newer, importance, pressure)


@given(ages, importances, importances, pressures)
def test_g17_more_important_is_never_told_in_less_detail(age: int, a: int, b: int, pressure: float) -> None:
    assert decay_tier(age, max(a, b), pressure) <= decay_tier(age, min(a, b), pressure)


@given(ages, importances, pressures, pressures)
def test_g17_more_pressure_never_adds_detail(age: int, importance: int, a: float, b: float) -> None:
    assert decay_tier(age, importance, max(a, b)) >= decay_tier(age, importance, min(a, b))


@pytest.mark.parametrize(
    ("age", "importance", "pressure"),
    [(-1, 50, 1.0), (0, 0, 1.0), (0, 101, 1.0), (0, 50, -0.1), (0, 50, math.nan), (0, 50, math.inf)],
)
def test_values_outside_the_formula_are_refused(age: int, importance: int, pressure: float) -> None:
    with pytest.raises(DecayError):
        decay_tier(age, importance, pressure)


def test_a_budget_under_one_is_refused() -> None:
    with pytest.raises(DecayError, match="history budget 0"):
        budget_pressure([50], 0)
