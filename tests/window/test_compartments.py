import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.window.compartments import (
    MAX_FILES,
    MAX_ITEMS,
    Compartment,
    CompartmentError,
    WorkState,
    heal_boundary,
    history_tiers,
    render_history,
)
from headwater.window.decay import budget_pressure, decay_tier
from headwater.window.tokens import count_text
from tests.growth import LINEAR, growth


def make(i: int, importance: int = 50, title: str = "Stretch", work: WorkState | None = None) -> Compartment:
    return Compartment(
        i * 10 + 1,
        i * 10 + 10,
        f"{title} {i}",
        f"P1 of {i}: " + "word " * 300,
        f"P2 of {i}: " + "word " * 100,
        f"P3 of {i}: " + "word " * 28,
        f"P4 of {i}: " + "word " * 10,
        importance,
        work=work,
    )


items = st.lists(st.text("abc", min_size=1, max_size=3), max_size=8).map(lambda v: tuple(dict.fromkeys(v)))
states = st.builds(
    WorkState,
    goal=st.text("ab", max_size=3),
    constraints=items,
    progress=items,
    decisions=items,
    next_steps=items,
    files_read=items,
    files_modified=items,
)


def test_c8_the_state_is_told_in_five_fields_with_the_files_last() -> None:
    state = WorkState("g", ("c",), ("p",), ("d",), ("n",), ("r",), ("m",))
    assert state.text() == (
        "### Work state\n- Goal: g\n- Constraints: c\n- Progress: p\n- Decisions: d\n- Next steps: n\n"
        "- Files read: r\n- Files modified: m"
    )
    assert [line.split(":")[0] for line in state.text("zh").splitlines()] == [
        "### 工作状态",
        "- 目标",
        "- 约束",
        "- 进展",
        "- 关键决策",
        "- 下一步",
        "- 已读文件",
        "- 已改文件",
    ]
    assert WorkState().text() == ""


def test_c9_an_increment_is_merged_with_the_state_before() -> None:
    older = WorkState("goal", ("no MySQL",), ("read",), ("plan B",), ("write",), ("a",), ())
    newer = WorkState("", ("no cloud",), ("wrote",), (), ("test",), ("b", "a"), ("a",))
    assert WorkState.merge(older, newer) == WorkState(
        "goal", ("no MySQL", "no cloud"), ("read", "wrote"), ("plan B",), ("test",), ("a", "b"), ("a",)
    )
    assert WorkState.merge(older, WorkState()).next_steps == ("write",)
    assert WorkState.merge(None, newer) == newer == WorkState.merge(newer, None)


def test_c9_the_first_constraint_outlives_any_number_of_merges() -> None:
    state = WorkState(constraints=("the first",), decisions=("plan B",))
    for i in range(500):
        state = WorkState.merge(
            state, WorkState(constraints=(f"c{i}",), decisions=(f"d{i}",), progress=(f"p{i}",))
        )
    assert (state.constraints[0], state.decisions[0]) == ("the first", "plan B")
    assert (state.constraints[-1], state.progress[-1]) == ("c499", "p499")
    assert len(state.constraints) == len(state.progress) == MAX_ITEMS


def test_c10_files_accumulate_in_first_seen_order_and_are_bounded() -> None:
    state = WorkState()
    for i in range(300):
        state = WorkState.merge(state, WorkState(files_read=(f"f{i}", "kept"), files_modified=(f"m{i % 3}",)))
    assert len(state.files_read) == MAX_FILES
    assert state.files_read[-1] == "f299"
    assert "kept" in state.files_read
    assert state.files_modified == ("m0", "m1", "m2")


@given(states, states)
def test_c9_merging_loses_nothing_within_the_bounds_and_is_idempotent(a: WorkState, b: WorkState) -> None:
    both = WorkState.merge(a, b)
    assert set(both.constraints) == {*a.constraints, *b.constraints}
    assert set(both.files_read) == {*a.files_read, *b.files_read}
    assert WorkState.merge(both, both) == both
    assert WorkState.from_dict(json.loads(json.dumps(both.to_dict()))) == WorkState.from_dict(both.to_dict())


def test_a_state_is_read_forgivingly() -> None:
    assert WorkState.from_dict("nonsense") == WorkState()
    read = WorkState.from_dict(
        {"goal": 3, "constraints": "only one", "decisions": ["a\n b", None, "", "a b"], "x": 1}
    )
    assert read == WorkState(constraints=("only one",), decisions=("a b",))


def test_g14_a_compartment_reads_back_as_written() -> None:
    told = make(3, 70, work=WorkState("g", ("c",)))
    assert Compartment.from_dict(json.loads(json.dumps(told.to_dict()))) == told
    assert [told.tier(n)[:2] for n in (1, 2, 3, 4)] == ["P1", "P2", "P3", "P4"]
    assert Compartment(1, 2, "t", "one", p3="three").tier(2) == "three"
    assert Compartment(1, 2, "t", "one").tier(4) == ""


@pytest.mark.parametrize(
    ("first", "last", "p1", "importance"),
    [(2, 1, "x", 50), (-1, 1, "x", 50), (1, 2, " ", 50), (1, 2, "x", 0), (1, 2, "x", 101)],
)
def test_g14_a_compartment_that_cannot_be_stored_is_refused(
    first: int, last: int, p1: str, importance: int
) -> None:
    with pytest.raises(CompartmentError):
        Compartment(first, last, "t", p1, importance=importance)


def test_g14_refusals_say_what_is_missing() -> None:
    with pytest.raises(CompartmentError, match="'p1'"):
        Compartment.from_dict({"first": 1, "last": 2, "title": "t"})
    with pytest.raises(CompartmentError, match="ctx_expand"):
        make(1).tier(5)


def test_g17_age_counts_compartments_from_the_newest_and_pressure_is_computed_once() -> None:
    told = [make(i) for i in range(80)]
    budget = 400_000
    pressure = budget_pressure([50] * 80, budget)
    assert history_tiers(told, budget) == tuple(decay_tier(79 - i, 50, pressure) for i in range(80))


def test_g18_tiers_as_rendered() -> None:
    told = [make(i) for i in range(80)]
    budget = sum((322, 109, 35, 20, 0)[decay_tier(age, 50, 1.0) - 1] for age in range(80))
    assert budget_pressure([50] * 80, budget) == 1.0
    tiers = history_tiers(told, 2 * budget)
    assert tiers[-1] == 1
    block = render_history(told, 2 * budget)
    for c, tier in zip(told, tiers, strict=True):
        heading = f"### §{c.first}–{c.last}§ {c.title}\n"
        assert (heading in block) == (tier < 5)
        assert tier == 5 or heading + c.tier(tier) in block


def test_g18_a_run_of_archived_compartments_is_one_line_that_says_how_to_open_it() -> None:
    told = [Compartment(i, i, f"Stretch {i}", "Told.", importance=100 if i == 5 else 1) for i in range(40)]
    costs = (decay_tier(39 - c.first, c.importance, 1.0) for c in told)
    block = render_history(told, sum((322, 109, 35, 20, 0)[tier - 1] for tier in costs))
    assert block.startswith('[§0–4§: 5 archived, open with ctx_expand("0-4")]\n\n### §5§ Stretch 5\n\n[')
    assert '\n\n[§6–23§: 18 archived, open with ctx_expand("6-23")]\n\n### §24§' in block
    chinese = [make(i, 1, title="数据库排障") for i in range(40)]
    assert "段已归档，用 ctx_expand(" in render_history(chinese, 2000)


def test_g19_the_same_set_gives_the_same_bytes_in_any_order() -> None:
    told = [make(i, 1 + 37 * i % 100) for i in range(50)]
    assert render_history(told, 4000) == render_history([*reversed(told)], 4000)
    again = [Compartment.from_dict(json.loads(json.dumps(c.to_dict()))) for c in told]
    assert render_history(again, 4000) == render_history(told, 4000)


def test_g19_golden_bytes() -> None:
    told = [
        Compartment(1, 4, "Setup\n done", "Installed it.", "Installed."),
        Compartment(5, 5, "Fix", "Fixed #3."),
    ]
    assert render_history(told, 1000) == "### §1–4§ Setup done\nInstalled it.\n\n### §5§ Fix\nFixed #3."


def test_g18_the_oldest_is_demoted_first_until_the_block_fits() -> None:
    told = [make(i) for i in range(4)]
    whole = count_text(render_history(told, 100_000))
    assert history_tiers(told, whole + 4) == (1, 1, 1, 1)
    tiers = history_tiers(told, whole - 100)
    assert tiers[0] > 1
    assert tiers[1:] == (1, 1, 1)


def test_c10_the_newest_work_state_closes_the_block() -> None:
    told = [
        make(0, work=WorkState("old goal")),
        make(1, work=WorkState("new goal", files_read=("a.py",))),
        make(2),
    ]
    block = render_history(told, 5000)
    assert block.endswith("### Work state\n- Goal: new goal\n- Files read: a.py")
    assert "old goal" not in block
    assert count_text(render_history(told, 200)) <= 200


def test_g18_ten_thousand_compartments_stay_in_any_budget() -> None:
    told = [make(i, 1 + 37 * i % 100, work=WorkState("g" * 200, ("c" * 200,) * 9)) for i in range(10_000)]

    def render(history: list[Compartment]) -> None:
        for budget in (0, 5, 40, 1000, 30_000):
            assert count_text(render_history(history, budget)) <= budget

    assert growth(render, told[:1_250], told, runs=1) < 8 * LINEAR
    assert history_tiers(told, 5) == (5,) * 10_000


def test_an_empty_history_is_empty() -> None:
    assert render_history([], 1000) == ""
    assert history_tiers([], 1000) == ()


words = st.text(alphabet="ab §.\n中文", min_size=1, max_size=60).filter(str.strip)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(words, words, words, words, st.integers(1, 100)), max_size=12), st.integers(-5, 400)
)
def test_g18_the_block_is_never_over_its_budget(
    rows: list[tuple[str, str, str, str, int]], budget: int
) -> None:
    told = [
        Compartment(i, i, t, p1, p2, p3, "", importance) for i, (t, p1, p2, p3, importance) in enumerate(rows)
    ]
    assert count_text(render_history(told, budget)) <= max(0, budget)
    assert len(history_tiers(told, budget)) == len(told)


def test_g20_a_compartment_at_the_chunks_edge_is_left_for_the_next_run() -> None:
    told = [make(0), make(1)]
    assert heal_boundary(told, 20) == (told[0],)
    assert heal_boundary(told, 22) == (told[0],)
    assert heal_boundary(told, 23) == tuple(told)
    assert heal_boundary(told, 20, emergency=True) == tuple(told)
    assert heal_boundary(told, 20, safe=False) == tuple(told)
    assert heal_boundary(told[:1], 10) == (told[0],)
