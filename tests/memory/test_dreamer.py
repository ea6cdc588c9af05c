"""The dreamer as a whole: hours, one at a time, kills, dry runs, and taking a run back."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headwater.memory import DreamError, Memory
from headwater.memory.dream_change import TASKS
from headwater.memory.dream_hours import Hours
from tests.memory.dreaming import DAY, NIGHT, SESSION, Clock, dreamer, fill, memory_in, project_in, state


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(tmp_path: Path, clock: Clock) -> Iterator[Memory]:
    with memory_in(tmp_path / "m", clock) as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return project_in(tmp_path / "p")


def test_g16_all_seven_tasks_run_and_each_change_has_its_reason(
    memory: Memory, project: Path, clock: Clock
) -> None:
    fill(memory)
    report = dreamer(memory, project, clock).dream()
    assert report.outcome == "done"
    assert report.tasks == TASKS
    assert {entry.change.task for entry in report.entries} == {*TASKS}
    assert all(entry.change.reason and entry.state == "applied" for entry in report.entries)
    text = report.text()
    assert all(entry.change.reason in text for entry in report.entries)
    assert report.to_dict()["changes"][0]["state"] == "applied"


def test_g16_a_second_run_finds_nothing_left(memory: Memory, project: Path, clock: Clock) -> None:
    fill(memory)
    dreams = dreamer(memory, project, clock)
    dreams.dream(now=True)
    after = state(memory, project, dreams)
    clock.now += 60
    again = dreams.dream(now=True)
    assert [e.change for e in again.entries if e.change.kind not in ("notice", "kept", "section")] == []
    dreams.dream(now=True)
    assert state(memory, project, dreams)["facts"] == after["facts"]


@pytest.mark.parametrize("name", TASKS)
def test_g16_each_task_has_a_switch_and_runs_alone(
    name: str, memory: Memory, project: Path, clock: Clock
) -> None:
    fill(memory)
    without = dreamer(memory, project, clock, tasks={name: False})
    assert name not in without.tasks
    alone = without.dream(name, now=True)
    assert alone.tasks == (name,)
    assert {entry.change.task for entry in alone.entries} == {name}


def test_g16_learning_about_a_person_is_opt_in(memory: Memory, project: Path, clock: Clock) -> None:
    fill(memory)
    plain = dreamer(memory, project, clock, tasks={})
    assert "user_memories" not in plain.tasks
    assert plain.dream().outcome == "done"
    assert [f for f in memory.facts.list() if f.scope == "user"] == []


def test_unknown_tasks_and_folders_are_named(memory: Memory, project: Path, clock: Clock) -> None:
    with pytest.raises(DreamError, match="no task 'tidy': there are consolidate"):
        dreamer(memory, project, clock).dream("tidy")
    with pytest.raises(DreamError, match="no task 'x'"):
        dreamer(memory, project, clock, tasks={"x": True})
    with pytest.raises(DreamError, match="is no folder"):
        dreamer(memory, project / "nowhere", clock)
    with pytest.raises(DreamError, match="no dream 'd0' in this project"):
        dreamer(memory, project, clock).undo("d0")


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        ("02:00-06:00", ["02:00", "05:59"], ["01:59", "06:00", "14:00"]),
        ("23:00-05:00", ["23:00", "23:59", "00:00", "04:59"], ["05:00", "22:59", "12:00"]),
        ("00:00-24:00", ["00:00", "23:59"], []),
    ],
)
def test_g16_hours_may_cross_midnight_and_exclude_their_end(
    hours: str, inside: list[str], outside: list[str]
) -> None:
    zone = ZoneInfo("Asia/Shanghai")

    def opened(time: str) -> float | None:
        hour, minute = map(int, time.split(":"))
        return Hours.parse(hours).opened(datetime(2026, 11, 30, hour, minute, tzinfo=zone).timestamp(), zone)

    assert all(opened(time) is not None for time in inside)
    assert all(opened(time) is None for time in outside)


def test_g16_a_window_over_midnight_is_one_window() -> None:
    hours, zone = Hours.parse("23:00-05:00"), UTC
    evening = datetime(2026, 11, 29, 23, 30, tzinfo=zone)
    assert (
        hours.opened(evening.timestamp(), zone)
        == hours.opened((evening + timedelta(hours=4)).timestamp(), zone)
        == evening.replace(minute=0).timestamp()
    )


@pytest.mark.parametrize("text", ["", "2-6", "02:00", "25:00-03:00", "02:00-02:00", "02:70-03:00", "a-b"])
def test_hours_that_are_no_window_are_refused(text: str) -> None:
    with pytest.raises(DreamError, match="is no window"):
        Hours.parse(text)


def test_g16_outside_the_hours_nothing_runs_unless_told_now(
    memory: Memory, project: Path, clock: Clock
) -> None:
    fill(memory)
    dreams = dreamer(memory, project, clock)
    clock.now = NIGHT + 10 * 3_600
    assert not dreams.due()
    assert dreams.dream().outcome == "not due"
    assert memory.facts.count("archived") == 0
    assert dreams.dream(now=True).outcome == "done"


def test_g16_it_runs_once_in_its_hours_and_again_in_the_next(
    memory: Memory, project: Path, clock: Clock
) -> None:
    dreams = dreamer(memory, project, clock)
    assert dreams.due()
    assert dreams.dream().outcome == "done"
    assert not dreams.due()
    assert dreams.dream().outcome == "not due"
    clock.now += DAY
    assert dreams.due()
    assert dreams.dream().outcome == "done"


def test_g16_hours_that_end_stop_the_run_between_two_tasks_and_the_next_go_on(
    memory: Memory, project: Path, clock: Clock
) -> None:
    fill(memory)

    def pass_time(word: str) -> None:
        if word == "plan verify":
            clock.now = NIGHT + 5 * 3_600

    first = dreamer(memory, project, clock, progress=pass_time).dream()
    assert first.outcome == "paused"
    assert {entry.change.task for entry in first.entries} == {"consolidate", "verify"}
    clock.now = NIGHT + DAY
    second = dreamer(memory, project, clock).dream()
    assert (second.run, second.outcome) == (first.run, "done")
    assert {entry.change.task for entry in second.entries} == {*TASKS}


def test_g16_a_dry_run_changes_nothing_and_says_what_would_be(
    memory: Memory, project: Path, clock: Clock
) -> None:
    fill(memory)
    dreams = dreamer(memory, project, clock)
    before = state(memory, project, dreams)
    dry = dreams.dream(dry_run=True)
    assert (dry.outcome, dry.run) == ("dry", "")
    assert state(memory, project, dreams) == before
    real = dreams.dream()
    assert [entry.change for entry in dry.entries] == [entry.change for entry in real.entries]


def test_g16_a_run_is_undone_byte_for_byte(memory: Memory, project: Path, clock: Clock) -> None:
    fill(memory)
    dreams = dreamer(memory, project, clock)
    before = state(memory, project, dreams)
    report = dreams.dream()
    assert report.changed > 6
    assert state(memory, project, dreams) != before
    back = dreams.undo(report.run)
    assert back.outcome == "undone"
    assert {entry.state for entry in back.entries} == {"undone"}
    assert state(memory, project, dreams) == before
    assert dreams.undo(report.run).outcome == "undone"
    assert memory.facts.search("importer")[0][0].content == "old/legacy.py holds the importer"


def test_g16_what_a_person_changed_since_is_left_by_undo(memory: Memory, project: Path, clock: Clock) -> None:
    ids = fill(memory)
    dreams = dreamer(memory, project, clock)
    report = dreams.dream()
    path = project / "ARCHITECTURE.md"
    path.write_bytes(path.read_bytes().replace(b"### Architecture", b"### Mine"))
    memory.facts.keep(ids["stale"])
    back = dreams.undo(report.run)
    left = {e.change.target for e in back.entries if e.state == "applied"}
    assert left == {ids["stale"], "ARCHITECTURE.md#architecture"}
    assert b"### Mine" in path.read_bytes()
    assert memory.facts.get(ids["stale"]).status == "permanent"
    assert "changed meanwhile" in back.text()


class Killed(BaseException):
    """The process is gone: nothing after this runs, but for what Python does while it falls."""


def _steps(tmp_path: Path) -> tuple[int, dict[str, Any], str]:
    """The steps of a run that goes through, and the state at its end."""
    clock, seen = Clock(), list[str]()
    with memory_in(tmp_path / "m", clock) as memory:
        project = Path(shutil.copytree(project_in(tmp_path / "start"), tmp_path / "p"))
        fill(memory)
        dreams = dreamer(memory, project, clock, progress=seen.append)
        report = dreams.dream()
        return len(seen), state(memory, project, dreams), report.text()


def test_g16_killed_at_any_step_it_ends_as_if_it_had_run_through(tmp_path: Path) -> None:
    steps, expected, _ = _steps(tmp_path / "whole")
    assert steps > 20
    for step in range(steps):
        root, clock = tmp_path / str(step), Clock()
        left = step

        def kill(word: str) -> None:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1

        memory = memory_in(root / "m", clock)
        project = Path(shutil.copytree(tmp_path / "whole" / "start", root / "p"))
        fill(memory)
        # No lease is given back by a process that was killed.
        memory.runs.release = lambda *a, **k: None  # type: ignore[method-assign]
        with pytest.raises(Killed):
            dreamer(memory, project, clock, progress=kill).dream()
        with memory_in(root / "m", clock) as after:
            dreams = dreamer(after, project, clock)
            assert dreams.dream().outcome == "busy"
            clock.now += 121
            assert dreams.dream().outcome == "done"
            found = state(after, project, dreams)
            assert found == expected, f"killed at step {step}"
            assert len(dreams.reports()) == 1
        memory.close()


def test_g16_an_undo_that_was_killed_is_ended_by_the_next(
    memory: Memory, project: Path, clock: Clock
) -> None:
    fill(memory)
    dreams = dreamer(memory, project, clock)
    before = state(memory, project, dreams)
    run = dreams.dream().run
    left = 5

    def kill(word: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Killed

    with pytest.raises(Killed):
        dreamer(memory, project, clock, progress=kill).undo(run)
    assert dreams.undo(run).outcome == "undone"
    assert state(memory, project, dreams) == before


def test_g16_two_that_start_together_do_the_work_once(tmp_path: Path) -> None:
    clock = Clock()
    project = project_in(tmp_path / "p")
    with memory_in(tmp_path / "m", clock) as one, memory_in(tmp_path / "m", clock) as other:
        fill(one)
        start = threading.Barrier(2)
        outcomes: list[str] = []

        def run(memory: Memory) -> None:
            dreams = dreamer(memory, project, clock)
            start.wait()
            outcomes.append(dreams.dream().outcome)

        threads = [threading.Thread(target=run, args=(memory,)) for memory in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) in (["busy", "done"], ["done", "not due"])
        reports = dreamer(one, project, clock).reports()
        assert [report.outcome for report in reports] == ["done"]
        assert all(entry.state == "applied" for entry in reports[0].entries)


def test_two_tenants_dream_apart(tmp_path: Path, clock: Clock) -> None:
    project = project_in(tmp_path / "p")
    with (
        memory_in(tmp_path / "m", clock) as one,
        memory_in(tmp_path / "m", clock, tenant="other") as other,
    ):
        fill(one)
        other.facts.write("we call it shop", "NAMING", now=NIGHT)
        ours, theirs = dreamer(one, project, clock), dreamer(other, project, clock)
        assert theirs.dream().outcome == "done"
        # A session of ours is in the same archive, and nothing of it was read.
        one.sessions.claim(SESSION)
        assert theirs.dream("user_memories", now=True).entries == []
        assert [f.content for f in other.facts.list()] == ["we call it shop"]
        assert theirs.key_files() == []
        assert ours.due()
        assert ours.reports() == []


def test_g16_the_projects_own_sessions_are_read_without_being_named(
    memory: Memory, project: Path, clock: Clock
) -> None:
    fill(memory)
    for fact in memory.facts.list():
        memory.facts.forget(fact.id)
    dreams = dreamer(memory, project, clock)
    assert dreams.dream("user_memories", now=True).entries == []
    memory.sessions.claim(SESSION)
    assert len(dreams.dream("user_memories", now=True).entries) == 1


def test_g16_what_was_taken_back_is_not_done_again_the_next_night(
    memory: Memory, project: Path, clock: Clock
) -> None:
    fill(memory)
    dreams = dreamer(memory, project, clock)
    before = state(memory, project, dreams)
    dreams.undo(dreams.dream().run)
    clock.now += DAY
    fresh = memory.facts.write("the mascot is a heron", "NAMING", now=NIGHT - 300 * DAY, importance=5)
    report = dreams.dream()
    assert {e.change.target for e in report.entries if e.change.kind in ("facts", "write")} == {fresh.id}
    dreams.undo(report.run)
    memory.facts.forget(fresh.id)
    assert state(memory, project, dreams)["facts"] == before["facts"]
