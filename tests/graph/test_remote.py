"""A sub-agent on a real LangGraph server, started here: conclusion, purse, cancellation, evidence."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Budget, Memory, SubAgent, build_agent
from headwater.graph import Remote, RunSettings
from headwater.graph.build import engine_of
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.window.policy import WindowPolicy
from tests.graph.dev_server import dev_server, needs_server
from tests.graph.world import config, last_text, results, says

HERE = Path(__file__).parent / "served"
pytestmark = needs_server
POLICY = WindowPolicy(window=16_000)


def script(request: Request) -> Reply:
    """Lead and scout in one: the scout reads two units, or hangs, or never ends."""
    said = " ".join(row["text"] for row in request.messages if row["role"] == "user")
    done = [row for row in request.messages if row["role"] == "tool"]
    if "You scout" in request.system:
        if "hang" in said:
            return Reply("late", delay=30)
        if "FACT:" in said:
            if done:
                return Reply(done[-1]["text"])
            word = said.rpartition(" ")[2]
            args = (
                {"action": "write", "content": f"The word is {word}"}
                if "WRITE" in said
                else {"action": "list"}
            )
            return Reply("", (ToolCall("ctx_memory", args),))
        if len(done) < 2 or "loop" in said:
            return Reply(f"Read {len(done)}.", (ToolCall("inspect", {"number": len(done)}),))
        return Reply("Both units are well.")
    if not done:
        brief = re.sub(r"^§\d+§ ", "", said)
        return Reply("", (ToolCall("delegate", {"agent": "scout", "brief": brief}, "c0"),))
    return Reply("All concluded.")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, StrictProvider]]:
    folder = tmp_path_factory.mktemp("served")
    for name in ("app.py", "langgraph.json"):
        (folder / name).write_text((HERE / name).read_text("utf-8"), "utf-8")
    with StrictProvider(script, window=16_000) as provider:
        settings = {"SERVED_MEMORY": str(folder / "memory"), "SERVED_MODEL": f"{provider.url}/v1"}
        with dev_server(folder, settings) as url:
            yield url, provider


def _lead(served: tuple[str, StrictProvider], memory: Memory, budget: Budget) -> Any:
    url, provider = served
    scout = SubAgent("scout", "looks", budget=budget, remote=Remote(url, "scout", "archive"))
    return build_agent(
        provider.openai(),
        system_prompt="You lead.",
        subagents=[scout],
        policy=POLICY,
        memory=memory,
        budget=Budget(steps=30, tokens=500_000, seconds=60),
        checkpointer=InMemorySaver(),
    )


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_m26_a_remote_child_concludes_and_its_evidence_opens(
    served: tuple[str, StrictProvider], memory: Memory, way: str
) -> None:
    import asyncio

    agent: Any = _lead(served, memory, Budget())
    thread = config(f"far-{way}")
    if way == "sync":
        state = await asyncio.to_thread(agent.invoke, says("look at both"), thread)
    else:
        state = await agent.ainvoke(says("look at both"), thread)
    (found,) = results(state["messages"])
    assert found.artifact["status"] == "done", found.content
    assert "Both units are well." in str(found.content)
    assert found.artifact["usage"]["steps"] == 3
    assert memory.ledger.spent(f"far-{way}#1").steps == 5
    tools = {t.name: t for t in _tools(agent)}
    tags = ",".join(map(str, found.artifact["evidence"]))
    arguments = {"tags": tags, "session": found.artifact["session"], "state": {"frame": state["frame"]}}
    opened = await asyncio.to_thread(tools["ctx_expand"].invoke, arguments)
    for unit in range(2):
        text = "\n".join(f"line {i}: part {i} of unit {unit} was checked and is well" for i in range(40))
        assert text in opened


def test_case_54_a_remote_child_keeps_to_the_tenant_of_the_run(
    served: tuple[str, StrictProvider], memory: Memory
) -> None:
    agent: Any = _lead(served, memory, Budget())

    def scouted(said: str, tenant: str | None) -> str:
        thread = config(f"facts-{tenant}-{said.split()[0]}")
        state = agent.invoke(says(said), thread, context=RunSettings(tenant=tenant))
        (found,) = results(state["messages"])
        assert found.artifact["status"] == "done", found.content
        return str(found.artifact["answer"])

    runs = [("acme", "heron"), ("umbra", "otter")]
    for tenant, word in runs:
        scouted(f"WRITE FACT: {word}", tenant)
    for tenant, word in runs:
        said = scouted("LIST FACT: all", tenant)
        assert [w for _, w in runs if w in said] == [word]
    said = scouted("LIST FACT: all", None)
    assert not [w for _, w in runs if w in said]


def test_m26_a_remote_child_keeps_to_its_purse(served: tuple[str, StrictProvider], memory: Memory) -> None:
    agent: Any = _lead(served, memory, Budget(steps=4))
    state = agent.invoke(says("loop for ever"), config("far-loop"))
    (found,) = results(state["messages"])
    assert found.artifact["status"] == "partial", found.content
    assert "budget of steps" in found.artifact["reason"]
    assert found.artifact["usage"]["steps"] == 4
    assert last_text(state) == "All concluded."


def test_m26_a_remote_child_that_hangs_is_ended_there_too(
    served: tuple[str, StrictProvider], memory: Memory
) -> None:
    url, _ = served
    agent: Any = _lead(served, memory, Budget(seconds=2))
    state = agent.invoke(says("hang"), config("far-hang"))
    (found,) = results(state["messages"])
    assert found.artifact["status"] == "partial", found.content
    thread = found.artifact["place"]["thread"]
    from langgraph_sdk import get_sync_client

    deadline = time.monotonic() + 15
    with get_sync_client(url=url) as client:
        while time.monotonic() < deadline:
            alive = [run for run in client.runs.list(thread) if run["status"] in ("pending", "running")]
            if not alive:
                break
            time.sleep(0.2)
    assert not alive


def _tools(agent: Any) -> list[Any]:
    """The agent's tools."""
    return list(engine_of(agent).tools)
