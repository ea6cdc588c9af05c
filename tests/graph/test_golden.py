"""What is sent, to the byte: one kept request for each kind of pass, the same in every process and at any time.

Where a change is meant to move what is sent, write the kept requests anew with
`python -m tests.graph.golden_sessions` and read the difference before it is committed.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.graph.golden_sessions import GOLDEN, SCENES, WEEK, Scene, go_on, play, settle, written

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_g10_g11_g12_the_request_of_each_pass_is_the_one_that_was_kept(scene: Scene, tmp_path: Path) -> None:
    """G10-G13, G30, G32, C18: DEFER, EXECUTE, FOLD, told history (by a model, by the digest), the lines at
    65% and 85%, and both ways of making room at 95%: the last request of a session, in full.
    """
    played = play(scene, tmp_path)
    assert (played.kind, played.remedies[: len(scene.remedies)]) == (scene.kind, list(scene.remedies))
    kept = (GOLDEN / f"{scene.name}.txt").read_text(encoding="utf-8")
    assert written(scene, played) == kept


def test_every_kept_request_is_of_a_session() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {scene.name for scene in SCENES}


def run(words: Sequence[str], seed: str) -> "subprocess.Popen[str]":
    """The golden sessions in a process of their own, with a hash seed of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-m", "tests.graph.golden_sessions", *words]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def output(process: "subprocess.Popen[str]") -> str:
    """What a process printed, once it has ended well."""
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return text


def test_g18_the_bytes_are_the_same_in_every_process_hash_seed_and_week(tmp_path: Path) -> None:
    """Every request of every session, in processes with other hash seeds whose clocks begin a week apart,
    one of them across the hour at which summer time would end.
    """
    started = [run(["digests", str(start)], seed) for seed, start in (("0", 0.0), ("4242", 1_792_888_000.0))]
    started.append(run(["digests", str(1_792_888_000.0 + WEEK)], "7"))
    first, *others = [output(process) for process in started]
    assert len(first.splitlines()) == len(SCENES)
    assert others == [first, first]


def test_g18_a_settled_session_goes_on_with_the_same_bytes_after_any_pause(tmp_path: Path) -> None:
    """A session with told history, facts and stubs: a second or a week later, in this process or in another,
    the next request is the same, and the one before it is its exact prefix.
    """
    settled = settle(tmp_path / "0")
    copies = []
    for number in (1, 2, 3):
        copies.append(shutil.copytree(tmp_path / "0", tmp_path / str(number)))
    pauses = (1.0, WEEK, 26 * WEEK)
    ways = enumerate(zip(copies, pauses, strict=True))
    started = [run(["go-on", str(copy), str(pause)], str(seed)) for seed, (copy, pause) in ways]
    here = go_on(tmp_path / "0", 1.0).sent[-1]
    assert [output(process).rstrip("\n") for process in started] == [here.decode()] * 3
    before, after = (json.loads(raw)["messages"] for raw in (settled.sent[-1], here))
    assert after[: len(before)] == before
    assert "## What happened so far" in str(after), "there is no told history in it"
    assert "⟦stored" in str(after) or "§9" in str(after)
