"""A server that cuts prompts is noticed; one that merely reports too little never is."""

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.window.cut_prompts import Reports, cut_at, hear
from headwater.window.frame import Frame

MODEL = "m@here"
Size = tuple[int, str]


def session(seed: int, steps: int = 80, *, passes: float = 0.0, first: int = 800) -> Iterator[Size]:
    """Requests as a session sends them: they grow, and now and then a pass moves the window."""
    chance = random.Random(seed)
    counted, revision = first, 0
    for _ in range(steps):
        yield counted, str(revision)
        counted += chance.choice((40, 300, 700, 1_500, 4_000))
        if chance.random() < passes:
            counted, revision = max(first, int(0.6 * counted)), revision + 1


def all_heard(sizes: Iterator[Size], report: Callable[[int], int]) -> list[Reports]:
    """What is known after each request of a session whose server reports so."""
    found = [Reports()]
    for counted, revision in sizes:
        found.append(hear(found[-1], counted, report(counted), model=MODEL, revision=revision))
    return found[1:]


def first_cut(sizes: Iterator[Size], report: Callable[[int], int]) -> tuple[int, int] | None:
    """The limit that is found and the counted size at which; None where none is."""
    rows = all_heard(sizes, report)
    return next(((limit, row.counted) for row in rows if (limit := cut_at(row)) is not None), None)


@pytest.mark.parametrize("limit", [4_096, 8_192, 32_768])
@pytest.mark.parametrize("rate", [0.85, 1.0, 1.7])
def test_m17_a_server_that_cuts_to_its_window_is_noticed(limit: int, rate: float) -> None:
    steps = (row for row in ((500 + 60 * i, "a") for i in range(3_000)))
    found = first_cut(steps, lambda counted: min(limit, int(rate * counted)))
    assert found is not None
    assert found[0] == limit
    assert found[1] * rate < 2.3 * limit, "not long after it has begun to cut"


def test_m17_a_server_that_drops_whole_messages_is_noticed() -> None:
    """What it keeps ends at a message, so its reports rise and fall a little below its window."""
    chance = random.Random(3)

    def report(counted: int) -> int:
        return counted if counted <= 8_192 else 8_192 - chance.randrange(300)

    found = first_cut(((500 + 300 * i, "a") for i in range(120)), report)
    assert found is not None
    assert 0.95 * 8_192 < found[0] <= 8_192


@given(st.integers(0, 10**6), st.floats(0.05, 3.0), st.integers(0, 30_000))
def test_m17_another_tokenizer_and_a_constant_are_never_a_cut(seed: int, rate: float, more: int) -> None:
    assert first_cut(session(seed, passes=0.1), lambda counted: int(rate * counted) + more) is None


@given(st.integers(0, 10**6), st.floats(0.0, 1.0), st.integers(1, 2_000))
def test_m17_what_a_cache_gave_may_be_left_out(seed: int, hits: float, block: int) -> None:
    """Only what is new is reported wherever the cache serves, in blocks; the whole wherever it does not."""
    chance = random.Random(seed)
    before = [0]

    def report(counted: int) -> int:
        kept = before[0] // block * block if chance.random() < hits else 0
        before[0] = counted
        return max(1, counted - min(kept, counted))

    assert first_cut(session(seed, passes=0.1), report) is None


@given(st.integers(0, 10**6), st.integers(1, 50_000), st.integers(0, 79))
def test_m17_one_number_for_every_request_is_never_a_cut(seed: int, number: int, since: int) -> None:
    """Also where that begins within a session, by whatever number under the last right one."""
    sizes = list(session(seed))
    right = sizes[since][0] if since else 0
    number = min(number, int(0.85 * right)) if since else number
    assert first_cut(iter(sizes), lambda c: c if c <= right else number) is None


@given(st.integers(0, 10**6), st.floats(0.1, 1.0))
def test_m17_the_half_of_a_stream_is_never_a_cut(seed: int, least: float) -> None:
    """Usage of one chunk of a stream: any part of the whole."""
    chance = random.Random(seed)
    assert first_cut(session(seed), lambda c: max(1, int(c * chance.uniform(least, 1.0)))) is None


@given(st.integers(0, 10**6), st.floats(0.2, 1.0))
def test_m17_what_is_never_charged_is_never_a_cut(seed: int, charged: float) -> None:
    """From some point on most of what is added is reasoning or images that the endpoint drops."""
    assert first_cut(session(seed), lambda c: c if c < 6_000 else 6_000 + int(charged * (c - 6_000))) is None


def test_m17_two_short_reports_prove_nothing_and_growth_begins_anew() -> None:
    sizes = [(500 * i, "a") for i in range(2, 12)]
    right = all_heard(iter(sizes), lambda c: c)[-1]
    assert (right.points, right.grown, right.right_reported) == (9, 4_500, 5_500)
    row = right
    for counted in (9_000, 12_000):
        row = hear(row, counted, 5_500, model=MODEL, revision="a")
    assert (row.row, cut_at(row)) == (2, None)
    third = hear(row, 13_000, 5_500, model=MODEL, revision="a")
    assert cut_at(third) == 5_500
    assert cut_at(hear(row, 13_000, 6_500, model=MODEL, revision="a")) is None, "it grows"
    assert cut_at(hear(row, 13_000, 5_500, model=MODEL, revision="b")) is None, "the window has moved"
    assert hear(row, 13_000, 5_500, model="other@here", revision="a").points == 0


def test_m17_a_report_that_falls_back_ends_all_trust() -> None:
    right = all_heard(iter([(500 * i, "a") for i in range(2, 12)]), lambda c: c)[-1]
    assert hear(right, 9_000, 700, model=MODEL, revision="a") == Reports(MODEL, "a", 9_000, 700)
    assert hear(right, 9_000, 0, model=MODEL, revision="a") == right, "nothing was reported"


def test_the_reports_are_part_of_the_frame() -> None:
    reports = Reports(MODEL, "a", 9_000, 700, 3, 2_000)
    assert Frame.from_state(Frame(reports=reports).to_state()).reports == reports
    assert Frame.from_state({"v": 1}).reports == Reports()
