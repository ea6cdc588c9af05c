import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.window.policy import Level, Lines, PolicyError, WindowPolicy
from headwater.window.prices import Prices
from headwater.window.sizes_table import DEFAULT_WINDOW

windows = st.integers(1_024, 10_000_000)
reserves = st.one_of(st.none(), st.integers(0, 20_000_000))


def lines_of(window: int, reserve: int | None) -> Lines:
    # A reserve at or over the window is refused where the window is set; a model's window comes later.
    return WindowPolicy(output_reserve=reserve).lines(window)


def test_m2_level_has_four_values_and_the_highest_that_applies_wins() -> None:
    assert [level.name for level in Level] == ["NORMAL", "OFFLOAD", "COMPACT", "EXHAUSTED"]
    lines = Lines(window=100, usable=90, offload=50, compact=70, exhausted=85)
    assert [lines.level(n) for n in (0, 49, 50, 69, 70, 84, 85, 10**9)] == [
        *(Level.NORMAL, Level.NORMAL, Level.OFFLOAD, Level.OFFLOAD),
        *(Level.COMPACT, Level.COMPACT, Level.EXHAUSTED, Level.EXHAUSTED),
    ]


def test_m2_level_is_pure_and_needs_no_window() -> None:
    policy = WindowPolicy()
    assert policy.level(10) == policy.level(10, DEFAULT_WINDOW) == Level.NORMAL
    assert policy.level(DEFAULT_WINDOW) == Level.EXHAUSTED
    assert hash(policy) == hash(WindowPolicy())


@given(windows, reserves)
def test_m3_lines_are_ordered_for_every_window_and_reserve(window: int, reserve: int | None) -> None:
    lines = lines_of(window, reserve)
    assert 0 < lines.offload < lines.compact < lines.exhausted < lines.window == window
    assert lines.exhausted <= lines.usable <= window


def test_m3_lines_are_ordered_at_every_small_window() -> None:
    for window in range(1_024, 4_096):
        for reserve in (None, 0, window // 2, window - 1):
            lines = lines_of(window, reserve)
            assert 0 < lines.offload < lines.compact < lines.exhausted < window


@given(
    windows,
    reserves,
    st.lists(st.floats(0, 1, exclude_min=True), min_size=3, max_size=3, unique=True).map(sorted),
)
def test_m3_lines_are_ordered_for_every_choice_of_fractions(
    window: int, reserve: int | None, fractions: list[float]
) -> None:
    offload, compact, exhausted = fractions
    policy = WindowPolicy(output_reserve=reserve, offload=offload, compact=compact, exhausted=exhausted)
    lines = policy.lines(window)
    assert 0 < lines.offload < lines.compact < lines.exhausted < window


@given(windows, reserves, st.integers(0, 11_000_000), st.integers(0, 11_000_000))
def test_m3_level_is_monotone_in_the_estimate(window: int, reserve: int | None, a: int, b: int) -> None:
    lines = lines_of(window, reserve)
    assert lines.level(min(a, b)) <= lines.level(max(a, b))


@given(windows, reserves)
def test_m3_a_line_is_reached_at_the_line_and_not_one_below(window: int, reserve: int | None) -> None:
    lines = lines_of(window, reserve)
    for line, level in ((lines.offload, Level.OFFLOAD), (lines.compact, Level.COMPACT)):
        assert lines.level(line - 1) == level - 1
        assert lines.level(line) == level
    assert lines.level(lines.exhausted - 1) == Level.COMPACT
    assert lines.level(lines.exhausted) == Level.EXHAUSTED


@pytest.mark.parametrize(
    ("window", "headroom"),
    [
        (32_000, 10_000),
        (64_000, 20_000),
        (127_999, 20_000),
        (128_000, 40_000),
        (200_000, 40_000),
        (1_000_000, 40_000),
    ],
)
def test_m4_lines_keep_the_headroom_of_the_table(window: int, headroom: int) -> None:
    lines = WindowPolicy().lines(window)
    assert 10_000 <= headroom <= 40_000
    assert lines.usable - lines.offload >= headroom
    assert lines.usable - lines.compact >= headroom // 2
    assert window - lines.offload >= 10_000


def test_m4_small_windows_scale_the_headroom() -> None:
    lines = WindowPolicy(output_reserve=0).lines(16_000)
    assert lines.offload == min(int(0.65 * 16_000), 16_000 - 5_000)
    assert lines.compact == min(int(0.85 * 16_000), 16_000 - 2_500)


def test_m4_lines_are_the_stated_formula_at_128k() -> None:
    # Reserve 32,000; usable 96,000; 65% is above usable - 40,000, 85% above usable - 20,000.
    assert WindowPolicy().lines(128_000) == Lines(128_000, 96_000, 56_000, 76_000, 91_200)


def test_e24_reserve_is_the_cap_the_maximum_or_a_quarter() -> None:
    assert WindowPolicy().lines(100_000).usable == 75_000
    assert WindowPolicy().lines(100_000, max_output=8_000).usable == 92_000
    assert WindowPolicy().lines(100_000, max_output=64_000).usable == 75_000
    assert WindowPolicy(output_reserve=64_000).lines(100_000).usable == 36_000


def test_case_15_lines_come_from_the_usable_window() -> None:
    # Raw 272,000, 95% of it usable, line at 90% of that: 232,560, not 244,800.
    policy = WindowPolicy(output_reserve=13_600, offload=0.5, compact=0.6, exhausted=0.9)
    assert policy.lines(272_000).exhausted == 232_560


def test_case_18_unknown_output_limit_leaves_a_16k_window_usable() -> None:
    lines = WindowPolicy().lines(16_000)
    assert lines.usable == 12_000
    assert lines.offload > 5_000
    assert WindowPolicy().lines(0) == WindowPolicy().lines(None) == WindowPolicy().lines(DEFAULT_WINDOW)


def test_e3_a_reserve_larger_than_the_window_never_makes_lines_negative() -> None:
    assert WindowPolicy(output_reserve=500_000).lines(128_000).usable == 16_000


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"window": 1_023}, "1,024"),
        ({"offload": 0.9}, "offload < compact"),
        ({"offload": 0.0}, "offload < compact"),
        ({"exhausted": 1.01}, "exhausted <= 1"),
        ({"offload": float("nan")}, "fractions"),
        ({"output_reserve": -1}, "negative"),
        ({"window": 4_000, "output_reserve": 4_000}, "lower it"),
        ({"keep_messages": 0}, "keep_messages=0"),
        ({"min_result": 0}, "min_result=0"),
        ({"history": 0.5}, "history=0.5"),
        ({"summarise": "often"}, "'often'"),
    ],
)
def test_g4_a_policy_that_cannot_be_kept_is_refused(bad: dict[str, object], words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        WindowPolicy(**bad)  # type: ignore[arg-type]


def test_g4_defaults_are_those_of_the_requirements() -> None:
    policy = WindowPolicy()
    assert (policy.offload, policy.history, policy.keep_tags, policy.keep_messages) == (0.65, 0.15, 20, 6)
    assert Prices() == Prices(read=0.1, write=1.25, ttl=300.0)


def test_e6_the_zone_never_takes_more_than_a_quarter_of_the_window() -> None:
    assert WindowPolicy().zone(1_000_000) == 20_000
    assert WindowPolicy().zone(8_000) == 2_000
    assert WindowPolicy().with_window(64_000).window == 64_000


def test_g6_a_cache_is_cold_after_five_minutes_and_not_before() -> None:
    prices = Prices()
    assert prices.is_cold(None, 0.0)
    assert not prices.is_cold(1_000.0, 1_300.0)
    assert prices.is_cold(1_000.0, 1_300.001)
    # A clock that was set back is no silence.
    assert not prices.is_cold(1_000.0, 10.0)


def test_g6_a_provider_without_a_cache_charges_every_token_alike() -> None:
    assert Prices.uncached() == Prices(1.0, 1.0, 0.0)


@pytest.mark.parametrize("bad", [{"read": 2.0}, {"read": -0.1}, {"ttl": -1.0}])
def test_prices_that_cannot_be_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"read|ttl"):
        Prices(**bad)
