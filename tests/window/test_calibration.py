"""Calibration: what is learned from usage, and that each estimate comes from earlier usage only."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.window.calibration import (
    ENOUGH_ALONE,
    JUMP,
    MAX_SCALE,
    MIN_SCALE,
    Meter,
    learn,
    predict,
)

MODEL = "m@default"


def after(reports: Sequence[tuple[int, int]], scale: float = 1.0) -> tuple[float, Meter]:
    """Scale and meter after (counted, reported) pairs of one stretch."""
    meter = Meter()
    for counted, reported in reports:
        scale, meter = learn(scale, meter, counted, reported, model=MODEL)
    return scale, meter


def test_m17_with_nothing_reported_the_count_times_the_scale_is_the_estimate() -> None:
    assert predict(1.0, Meter(), 5_000) == 5_000
    assert predict(1.5, Meter(), 5_000) == 7_500


@given(
    st.floats(MIN_SCALE, MAX_SCALE),
    st.integers(0, 60_000),
    st.lists(st.integers(1, 8_000), min_size=2, max_size=40),
)
def test_m17_a_constant_and_a_factor_are_told_apart(factor: float, constant: int, steps: list[int]) -> None:
    """A system prompt nobody counted and another tokenizer: from the second report on, both are known."""
    counted = 2_000
    scale, meter = 1.0, Meter()
    for number, step in enumerate(steps):
        charged = int(constant + factor * counted)
        if meter.sloped and number > 1:
            assert predict(scale, meter, counted) == pytest.approx(charged, rel=0.02, abs=20)
        scale, meter = learn(scale, meter, counted, charged, model=MODEL)
        counted += step
    if meter.sloped:
        assert scale == pytest.approx(factor, rel=0.01, abs=0.01)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(-5, 10**7)), max_size=30))
def test_m17_whatever_is_reported_the_scale_stays_within_its_bounds(reports: list[tuple[int, int]]) -> None:
    scale, meter = after(reports)
    assert MIN_SCALE <= scale <= MAX_SCALE
    assert predict(scale, meter, 1_000) >= 0
    assert predict(scale, meter, 1_000, "another revision") >= int(scale * 1_000)


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_m17_the_same_request_again_is_estimated_as_it_was_charged(counted: int, reported: int) -> None:
    scale, meter = after([(counted, reported)])
    assert predict(scale, meter, counted) == pytest.approx(reported, abs=1)


def test_m17_up_at_once_and_down_slowly() -> None:
    scale, meter = after([(10_000, 10_000), (20_000, 20_000)])
    assert scale == 1.0
    up, meter = learn(scale, meter, 40_000, 50_000, model=MODEL)
    assert up == pytest.approx(40_000 / 30_000, abs=1e-3)
    down, _ = learn(up, meter, 70_000, 65_000, model=MODEL)
    assert 55_000 / 60_000 < down < up


def test_m17_only_usage_newer_than_the_last_edit_gives_the_scale() -> None:
    """What left the window between two reports is not read as a cheaper tokenizer."""
    scale, meter = after([(10_000, 15_000), (40_000, 60_000)])
    moved, meter = learn(scale, meter, 12_000, 18_500, model=MODEL, revision="r1")
    assert moved == scale
    assert (meter.base_counted, meter.base_reported) == (12_000, 18_500)


def test_m17_after_an_edit_the_constant_is_left_and_never_negative() -> None:
    _, meter = after([(10_000, 40_000), (20_000, 50_000)])
    assert predict(1.0, meter, 5_000, "r1") == 35_000
    _, meter = after([(10_000, 9_000), (20_000, 17_000)])
    assert predict(1.0, meter, 5_000, "r1") == 5_000


def test_m17_a_jump_that_nobody_counted_is_no_sample_of_the_scale() -> None:
    """Images, output of the provider's own tools: the constant moves, the scale does not."""
    scale, meter = after([(10_000, 10_000), (20_000, 20_000)])
    for jump in (JUMP + 60_000, -JUMP - 40_000):
        counted, reported = meter.counted + 500, meter.reported + 500 + jump
        scale, meter = learn(scale, meter, counted, reported, model=MODEL)
        assert scale == 1.0
        assert predict(scale, meter, counted + 3_000) == reported + 3_000


def test_m17_one_small_request_alone_says_nothing_of_the_tokenizer() -> None:
    assert after([(300, 2_600)])[0] == 1.0
    assert after([(ENOUGH_ALONE, int(1.5 * ENOUGH_ALONE))])[0] == 1.5


def test_users_6_another_model_starts_its_own_meter() -> None:
    scale, meter = after([(10_000, 15_000), (40_000, 60_000)])
    _, other = learn(scale, meter, 50_000, 50_000, model="other@default")
    assert other.model == "other@default"
    assert not other.sloped
    assert other.base_counted == 50_000


def test_m17_no_usage_changes_nothing() -> None:
    scale, meter = after([(10_000, 15_000)])
    assert learn(scale, meter, 12_000, 0, model=MODEL) == (scale, meter)
