"""The peers' harness: its accounting, its refusals and its switches, on sessions small enough for a test."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from benchmarks.ablation import page as ablation_page
from benchmarks.economy import ThresholdPolicy
from benchmarks.mechanisms import SWITCHES
from benchmarks.peer_page import draw, page
from benchmarks.peer_replay import Cell, PeerPlayer
from benchmarks.peer_systems import SYSTEMS, cell_of
from benchmarks.results import Task, run
from benchmarks.sessions import Asked, Sized, choose
from headwater.lab.provider import Reply, StrictProvider
from headwater.lab.replay import replay
from headwater.lab.sessions import Session
from headwater.window import view

WINDOW = 32_000
RULE = "Never touch the file config/prod.yaml, whatever happens."
FILLER = "The service answered with a table of measurements and a remark on each of them. "


def session(steps: int = 4, weight: int = 40, system: bool = True) -> Session:
    """A session of one round: a rule, then calls whose results weigh about 16 × `weight` tokens each."""
    messages: list[BaseMessage] = [SystemMessage("You keep a service running.")] if system else []
    messages.append(HumanMessage(f"Find out why request 96 is slow. {RULE}"))
    for number in range(steps):
        call = {"name": "probe", "args": {"part": number}, "id": f"call_{number}"}
        messages.append(AIMessage("", tool_calls=[call]))
        messages.append(ToolMessage(f"part {number}: " + FILLER * weight, tool_call_id=f"call_{number}"))
    messages.append(AIMessage("Request 96 waits for the disk."))
    blank = [None] * len(messages)
    return Session("small", messages, list(blank), list(blank), [])


def needs(name: str) -> None:
    package = SYSTEMS[name].package
    if package and find_spec(package) is None:
        pytest.skip(f"{package} is not installed (extra bench)")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SYSTEMS)
def test_e22_every_system_plays_a_small_session_whole_and_unharmed(name: str) -> None:
    needs(name)
    cell = SYSTEMS[name].play(session(), WINDOW)
    assert (cell.steps, cell.recorded) == (5, 5)
    assert (cell.refused, cell.invalid, cell.stopped, cell.lost) == (0, 0, 0, 0)
    assert cell.in_sight > 0
    assert cell.cost == pytest.approx(sum(cell.by_step), abs=1)
    # Nothing has to leave, so none is cheaper than the log itself; schemas and prompts come on top.
    assert cell.cost >= cell.unmanaged * 0.99


@pytest.mark.filterwarnings("ignore")
def test_a_refused_step_is_counted_and_the_session_goes_on() -> None:
    cell = SYSTEMS["none"].play(session(steps=4, weight=700), WINDOW)
    over = [size for size in (11_000, 22_000, 33_000, 44_000) if size > WINDOW]
    assert (cell.steps, cell.refused, cell.stopped) == (5, len(over), len(over))
    assert cell.largest > WINDOW


@pytest.mark.filterwarnings("ignore")
def test_summaries_are_counted_apart_and_what_they_swallow_is_lost() -> None:
    cell = SYSTEMS["summarization, tuned"].play(session(steps=12, weight=300), WINDOW)
    assert cell.told_calls > 0
    assert cell.told_cost == pytest.approx(0.2 * cell.told_tokens)
    assert cell.lost > 0
    assert cell.total == cell.cost + cell.told_cost


@pytest.mark.filterwarnings("ignore")
def test_deepagents_facts_are_in_reach_by_its_history_file() -> None:
    needs("deepagents")
    cell = SYSTEMS["deepagents"].play(session(steps=12, weight=300), WINDOW)
    assert cell.told_calls > 0
    # Its summaries are the main model's, at the main model's price.
    assert cell.told_cost == pytest.approx(cell.told_tokens)
    assert cell.in_reach > 0
    assert cell.lost == 0


@pytest.mark.parametrize(
    ("window", "line"), [(4_000, 3_000), (8_000, 6_000), (32_000, 24_000), (200_000, 170_000)]
)
def test_the_threshold_has_its_line_in_small_windows_too(window: int, line: int) -> None:
    lines = ThresholdPolicy(window=window).lines()
    assert lines.compact == line
    assert 0 < lines.offload < lines.compact < lines.exhausted < lines.window


def test_a_system_prompt_is_given_once_and_never_missing() -> None:
    assert PeerPlayer(session()).system == "You keep a service running."
    assert PeerPlayer(session(system=False)).system
    assert not any(isinstance(m, SystemMessage) for m in PeerPlayer(session()).inputs())


def test_a_lenient_provider_answers_and_still_notes_the_rule() -> None:
    broken = [HumanMessage("hi"), ToolMessage("x", tool_call_id="none")]
    with StrictProvider(lambda _: Reply("ok"), window=1_000, lenient=True) as provider:
        provider.openai().invoke(broken)
        provider.openai().invoke([HumanMessage(FILLER * 200)])
        found = provider.requests
    assert [x.status for x in found] == [200, 200]
    assert found[0].rule == "results_paired"


def test_the_subset_takes_each_source_in_turn_and_none_that_fits_the_window() -> None:
    known = [
        Sized(Path(name), source, size)
        for name, source, size in (
            ("a1", "a", 90_000),
            ("a2", "a", 80_000),
            ("b1", "b", 50_000),
            ("c1", "c", 400_000),
            ("d1", "d", 9_000),
        )
    ]
    assert [s.path.name for s in choose(known, 32_000, Asked(2, 100_000))] == ["a1", "b1"]
    assert [s.path.name for s in choose(known, 32_000, Asked(9, 100_000))] == ["a1", "a2", "b1"]
    assert len(choose(known, 32_000, Asked())) == len(known)


def test_m16_what_is_switched_off_does_nothing_and_is_on_again_after() -> None:
    played = {
        name: cell_of(name, replay(session(steps=24, weight=60), SWITCHES[name].of(WINDOW)))
        for name in ("all on", "result stubs")
    }
    assert played["all on"].largest < played["result stubs"].largest
    before = vars(view)["may_strip"]
    with SWITCHES["reasoning drop"].off():
        assert vars(view)["may_strip"] is not before
    assert vars(view)["may_strip"] is before


def test_results_are_kept_and_not_played_again(tmp_path: Path) -> None:
    from rich.console import Console

    keep = tmp_path / "kept.jsonl"
    tasks = [Task("all on", tmp_path / "s.jsonl", WINDOW)]
    first = run(tasks, _play_small, Console(quiet=True), 1, keep, Cell)
    again = run(tasks, _refuse, Console(quiet=True), 1, keep, Cell)
    assert first == again


def _play_small(task: Task) -> Cell:
    return SYSTEMS["ours"].play(session(), task.window)


def _refuse(task: Task) -> Cell:
    raise AssertionError(f"{task} was played again")


def test_the_pages_say_where_ours_loses(tmp_path: Path) -> None:
    ours = SYSTEMS["ours"].play(session(), WINDOW)
    cheap = Cell(**{**ours.__dict__, "system": "none", "cost": ours.cost / 2, "by_step": ours.by_step})
    text = page([ours, cheap])
    assert "loses, cost**: none (" in text
    draw([ours, cheap], tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes()[:4] == b"\x89PNG"
    on = Cell(**{**ours.__dict__, "system": "all on"})
    off = Cell(**{**cheap.__dict__, "system": "pins"})
    shown = "\n".join(ablation_page([on, off]))
    assert "Cheaper without, on these sessions:\n\n- pins (" in shown
