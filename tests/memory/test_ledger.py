"""The ledger: no schedule of children spends more than the purse plus one step."""

import math
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.memory.database import Database
from headwater.memory.delegations import Delegations, delegations_in
from headwater.memory.ledger import Allowance, Ledger, Short, Spend


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """The file of delegations."""
    opened = delegations_in(tmp_path / "l.sqlite")
    yield opened
    opened.close()


TREE = {"a": ["a", "root"], "b": ["b", "root"], "a/1": ["a/1", "a", "root"], "a/2": ["a/2", "a", "root"]}

moves = st.lists(
    st.tuples(st.sampled_from(sorted(TREE)), st.integers(1, 400), st.floats(0.1, 1.0)),
    min_size=1,
    max_size=80,
)


@settings(max_examples=60, deadline=None)
@given(moves, st.integers(1, 30), st.integers(50, 4_000), st.floats(0.01, 2.0))
@example([("a", 1, 1.0), ("b", 100, 0.5), ("b", 1, 1.0), ("b", 50, 1.0)], 4, 50, 1.0)
def test_m26_no_schedule_spends_more_than_the_purse_plus_one_step(
    tmp_path_factory: pytest.TempPathFactory,
    schedule: list[tuple[str, int, float]],
    steps: int,
    tokens: int,
    cost: float,
) -> None:
    """Any interleaving of asking and paying: each account stays within its limits plus its largest step."""
    database = delegations_in(tmp_path_factory.mktemp("l") / "l.sqlite")
    ledger = Ledger(database)
    ledger.open("root", Allowance(steps, tokens, cost))
    for key in TREE:
        ledger.open(key, Allowance(max(1, steps // 2), max(1, tokens // 2)))
    waiting: dict[str, tuple[Spend, float]] = {}
    largest = Spend()
    for who, size, used in schedule:
        if who in waiting:
            want, share = waiting.pop(who)
            paid = Spend(1, want.tokens * share, want.cost * share)
            ledger.settle(TREE[who], who, paid, Spend(1, want.tokens, want.cost))
            largest = Spend(1, max(largest.tokens, paid.tokens), max(largest.cost, paid.cost))
            continue
        one = Spend(1, size, size / 1_000)
        two = Spend(2, 2 * size, 2 * size / 1_000)
        if ledger.ask(TREE[who], who, two) is None or ledger.ask(TREE[who], who, one, overdraft=True) is None:
            waiting[who] = (one, used)
    for who, (want, _) in waiting.items():
        ledger.settle(TREE[who], who, want, Spend())
        largest = Spend(1, max(largest.tokens, want.tokens), max(largest.cost, want.cost))
    spent = ledger.spent("root")
    assert spent.steps <= steps
    assert spent.tokens <= tokens + largest.tokens
    assert spent.cost <= cost + largest.cost + 1e-9
    for key in TREE:
        assert ledger.spent(key).steps <= max(1, steps // 2)
    database.close()


def test_m26_what_is_held_to_conclude_is_there_when_a_sibling_goes_over(database: Database) -> None:
    """One step may go over, once; a sibling's concluding step is not taken from it."""
    ledger = Ledger(database)
    ledger.open("root", Allowance(10, 1_000))
    for name in "ab":
        assert ledger.admit(["root"], name, Allowance(), Spend(1, 400)) is None
    assert ledger.ask(["a", "root"], "a", Spend(1, 900)) == Short("tokens", 1_000, 600)
    assert ledger.ask(["a", "root"], "a", Spend(1, 900), overdraft=True) is None
    ledger.settle(["a", "root"], "a", Spend(1, 900), Spend())
    assert ledger.ask(["b", "root"], "b", Spend(1, 400)) is None
    assert ledger.ask(["b", "root"], "b", Spend(1, 500), overdraft=True) is not None


def test_m26_a_child_that_was_admitted_before_a_crash_counts_once(database: Database) -> None:
    ledger = Ledger(database)
    ledger.open("root", Allowance(children=1))
    assert ledger.admit(["root"], "a", Allowance(), Spend(1)) is None
    assert ledger.admit(["root"], "a", Allowance(), Spend(1), again=True) is None
    refused = ledger.admit(["root"], "b", Allowance(), Spend(1))
    assert str(refused) == "children: 0 of 1 left"


def test_what_was_spent_outlives_the_process(tmp_path: Path) -> None:
    before = delegations_in(tmp_path / "l.sqlite")
    first = Ledger(before)
    first.open("root", Allowance(3))
    assert first.ask(["root"], "x", Spend(1)) is None
    first.settle(["root"], "x", Spend(1), Spend())
    Delegations(before).conclude("s", "brief", {"answer": "会话 \ud800"})
    before.close()
    after = delegations_in(tmp_path / "l.sqlite")
    again, delegations = Ledger(after), Delegations(after)
    again.open("root", Allowance(3))
    assert again.spent("root").steps == 1
    assert delegations.concluded("s", "brief") == {"answer": "会话 \ud800"}
    assert delegations.concluded("s", "another") is None
    assert again.time_left(["root"]).left == math.inf
    after.close()


def test_m26_threads_draw_from_one_purse(database: Database) -> None:
    """Forty threads for ten steps: ten are granted."""
    ledger = Ledger(database)
    ledger.open("root", Allowance(10))
    granted: list[str] = []

    def draw(name: str) -> None:
        if ledger.ask(["root"], name, Spend(1)) is None:
            granted.append(name)

    threads = [threading.Thread(target=draw, args=(str(i),)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 10


def test_giving_back_frees_what_was_held_below(database: Database) -> None:
    ledger = Ledger(database)
    ledger.open("root", Allowance(3))
    for name in ("s", "s/1", "s2"):
        assert ledger.ask(["root"], name, Spend(1)) is None
    assert ledger.ask(["root"], "more", Spend(1)) == Short("steps", 3, 0)
    ledger.release("s")
    assert ledger.ask(["root"], "more", Spend(2)) is None
    assert ledger.ask(["root"], "s2", Spend(2)) is not None
