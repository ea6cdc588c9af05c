"""The worked graphs: each runs offline and, by `--model`, with a model behind an endpoint of its own."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headwater.lab.provider import StrictProvider

ROOT = Path(__file__).parents[1]


def example(name: str) -> ModuleType:
    """An example as a module, as it stands."""
    found = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def run(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ModuleType]:
    """The state at its end: offline, or by a model's name and a key in the environment."""
    module = example(name)
    if way == "offline":
        return module.main(None), module
    with StrictProvider(module.script, window=module.WINDOW) as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        state = module.main("openai:strict-main")
        assert provider.violations == []
        assert provider.requests
        return state, module


@pytest.mark.parametrize("way", ["offline", "model"])
def test_the_chat_keeps_what_was_laid_down_in_sight(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state, module = run("chat", way, monkeypatch)
    assert state["messages"][-1].text == "Opening valve V-31."
    assert state["turns"] == len(module.QUESTIONS)
    assert state["largest"] < module.WINDOW


@pytest.mark.parametrize("way", ["offline", "model"])
def test_the_planner_collects_what_its_workers_conclude(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state, module = run("planner", way, monkeypatch)
    assert sorted(state["conclusions"].values()) == [
        f"{name}: {module.ERRORS[name]} errors" for name in sorted(module.SERVICES)
    ]
    assert "search" in state["messages"][-1].text


@pytest.mark.parametrize("way", ["offline", "model"])
def test_the_monitor_goes_on_after_a_stop_in_a_window_that_stays_the_same(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, module = run("monitor", way, monkeypatch)
    assert state["ticks"] == list(range(1, module.TICKS + 1))
    assert state["alarms"] == len(module.HOT)
    assert state["largest"] < module.WINDOW
    assert len(state["messages"]) < module.TICKS


def test_an_example_is_a_program_with_help() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/chat.py"), "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        check=True,
        timeout=120,
    )
    assert "--model PROVIDER:NAME" in done.stdout


def test_the_studios_graph_needs_no_key_and_carries_no_checkpointer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HEADWATER_MODEL", "HEADWATER_SUMMARIZER", "HEADWATER_WINDOW"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADWATER_MEMORY", str(tmp_path / "memory"))
    agent = example("studio").agent
    assert agent.checkpointer is None
    assert agent.store is None
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 200}
    asked = {"messages": [("user", "Explore the code base in 6 steps.")]}
    events = list(agent.stream(asked, config, stream_mode="custom"))
    assert sum(event["type"] == "headwater.request" for event in events) >= 6
