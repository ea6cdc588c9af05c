"""What is sent, to the byte: one kept request for each kind of pass, the same in each process, at any time.

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
    """Every request of every kind of pass, in processes with other hash seeds, their clocks years apart."""
    names = ["execute", "fold-cold", "fold-model", "reclaim-95-deep"]
    started = [
        run(["digests", *given, *names], seed) for seed, given in (("0", ["0"]), ("4242", ["1792888000"]))
    ]
    first, second = [output(process) for process in started]
    assert [line.split()[0] for line in first.splitlines()] == names
    assert first == second


def test_g18_a_settled_session_goes_on_with_the_same_bytes_after_any_pause(tmp_path: Path) -> None:
    """A session with told history, facts and stubs: a second, a week or half a year later, in this process or
    in another, the next request is the same, and the one before it is its exact prefix.
    """
    left = tmp_path / "left"
    left.mkdir()
    settled = settle(left)
    copies = [shutil.copytree(left, tmp_path / name) for name in ("soon", "later")]
    pauses = ("1", str(WEEK))
    started = [run(["go-on", str(c), p], seed) for c, p, seed in zip(copies, pauses, "19", strict=True)]
    here = go_on(left, 26 * WEEK).sent[-1]
    assert [output(process).rstrip("\n") for process in started] == [here.decode()] * 2
    before, after = (json.loads(raw)["messages"] for raw in (settled.sent[-1], here))
    assert after[: len(before)] == before
    for part in ("## What happened so far", "## Known facts", "⟦stored"):
        assert part in str(after)
