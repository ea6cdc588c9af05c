"""`headwater dream`: dry, now, one task, the list, and back again; and a real kill in the middle."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.cli import MISUSED, OK, main
from tests.memory.dreaming import Clock, fill, memory_in, project_in

ROOT = Path(__file__).parents[1]

CHILD = """
import os, signal, sys
from pathlib import Path
from tests.memory.dreaming import Clock, dreamer, memory_in
root, project, left = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
def step(word):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
with memory_in(root, clock := Clock(Clock().now + float(sys.argv[4]))) as memory:
    print(dreamer(memory, project, clock, progress=step).dream(now=True).outcome)
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A memory with something to tidy, and its project, as options."""
    clock = Clock()
    with memory_in(tmp_path / "m", clock) as memory:
        fill(memory)
    monkeypatch.chdir(tmp_path)
    return ["--memory", str(tmp_path / "m"), "--project", str(project_in(tmp_path / "p")), "--now"]


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_g16_dream_from_the_command_line_and_back(
    places: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = (tmp_path / "p/ARCHITECTURE.md").read_bytes()
    assert main(["dream", *places, "--dry-run", "--json"]) == OK
    dry = told(capsys)
    assert dry["outcome"] == "dry"
    assert (tmp_path / "p/ARCHITECTURE.md").read_bytes() == before
    assert main(["dream", *places]) == OK
    text = capsys.readouterr().out
    assert "app/config.toml says port = 5433" in text
    assert "user_memories" not in text
    assert main(["dream", *places, "--task", "user_memories", "--json"]) == OK
    learnt = told(capsys)
    assert [change["kind"] for change in learnt["changes"]] == ["write"]
    assert main(["dream", *places, "--list", "--json"]) == OK
    newest, first = told(capsys)
    assert newest["run"] == learnt["run"]
    for run in (newest["run"], first["run"]):
        assert main(["dream", *places, "--undo", run]) == OK
    assert (tmp_path / "p/ARCHITECTURE.md").read_bytes() == before
    capsys.readouterr()
    assert main(["dream", *places, "--list"]) == OK
    assert capsys.readouterr().out.count("undone") == 2


def test_dream_says_what_is_wrong_in_one_line(
    places: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for argv, said in (
        ([*places, "--task", "tidy"], "no task 'tidy'"),
        ([*places, "--undo", "d0"], "no dream 'd0'"),
        ([*places, "--hours", "2-6"], "is no window"),
        (["--memory", "nowhere"], "no memory folder"),
        ([*places, "--off", "sleep"], "no task 'sleep'"),
        ([*places, "--model", "nobody:none"], "names no model"),
        ([*places, "--model", "openai:gpt-5.4"], "set OPENAI_API_KEY"),
    ):
        assert main(["dream", *argv]) == MISUSED
        assert said in capsys.readouterr().err


def test_dream_has_a_switch_for_each_task(places: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dream", *places, "--off", "verify", "--off", "improve", "--profile", "--json"]) == OK
    assert told(capsys)["tasks"] == [
        "consolidate", "archive-stale", "maintain-docs", "user_memories", "pin_key_files",
    ]  # fmt: skip


def test_g16_a_process_that_is_killed_loses_nothing_and_the_next_goes_on(
    places: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def child(steps: int, later: float) -> "subprocess.CompletedProcess[str]":
        words = [str(tmp_path / "m"), str(tmp_path / "p"), str(steps), str(later)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-c", CHILD, *words],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
        )

    assert child(7, 0).returncode == -signal.SIGKILL
    # It has the lease for two minutes yet.
    assert child(0, 1).stdout.strip() == "busy"
    assert child(9, 200).returncode == -signal.SIGKILL
    assert child(0, 400).stdout.strip() == "done"
    assert main(["dream", *places, "--list", "--json"]) == OK
    (only,) = told(capsys)
    assert only["outcome"] == "done"
    assert {change["state"] for change in only["changes"]} == {"applied"}
