"""Governance as others see it: typed events, spans with the right parents, and callbacks that hear of all."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, SubAgent, WindowPolicy, build_agent
from headwater.graph import GovernanceMiddleware
from headwater.graph.build import engine_of
from headwater.lab.provider import ModelSpec, Reply, Request, StrictProvider, ToolCall
from headwater.nodes.event_types import event_of
from tests.graph.world import (
    IN_LINE,
    WINDOW,
    Event,
    config,
    delegating,
    inspector,
    kinds,
    memory_in,
    of,
    says,
    turns_of,
    watch,
)

AHEAD = WindowPolicy(window=16_384, offload=0.4, compact=0.8, min_result=10_000, summarise="cold")
GOOD = json.dumps({"title": "t", "p1": "The units were checked and all of them are well."})


@pytest.fixture
def provider() -> Iterator[StrictProvider]:
    inner = turns_of(400)

    def script(request: Request) -> Reply:
        return Reply(GOOD) if request.purpose == "summarizer" else inner(request)

    with StrictProvider(script, window=64_000, models={"cheap": ModelSpec(64_000)}) as opened:
        yield opened
        assert opened.violations == []


def governed(provider: StrictProvider, memory: Memory, policy: WindowPolicy, words: int = 400) -> Any:
    return build_agent(
        provider.openai(),
        tools=[inspector(words)],
        policy=policy,
        memory=memory,
        checkpointer=InMemorySaver(),
        summarizer=provider.openai("cheap", purpose="summarizer"),
    )


def rounds(agent: Any, count: int, conf: RunnableConfig) -> list[Event]:
    return [event for n in range(count) for event in watch(agent, says(f"Check {n}."), conf)]


def test_every_event_of_a_session_has_the_documented_shape(provider: StrictProvider, memory: Memory) -> None:
    events = rounds(governed(provider, memory, IN_LINE), 12, config())
    for event in events:
        event_of(event)
    assert {"intake", "watermark", "request", "summarize", "spending"} <= set(kinds(events))


def test_the_events_of_a_background_run_have_it_too(provider: StrictProvider, memory: Memory) -> None:
    agent = governed(provider, memory, AHEAD)
    events = rounds(agent, 12, config())
    assert memory.runs.wait(60)
    events += rounds(agent, 1, config())
    for event in events:
        event_of(event)
    assert {"historian_started", "historian_told"} <= set(kinds(events))


def test_the_events_of_delegations_and_of_a_halt_have_it_too(memory: Memory) -> None:
    script = delegating(lambda request: Reply("All is well."))
    policy = WindowPolicy(window=WINDOW)
    with StrictProvider(script, window=WINDOW) as provider:
        scout = SubAgent("scout", "looks", prompt="You scout.")
        agent = build_agent(provider.openai(), subagents=[scout], policy=policy, memory=memory)
        events = watch(agent, says("Look around."), config())
        events += watch(agent, says("long " * 20_000), config("other"))
    for event in events:
        event_of(event)
    assert {"delegate", "conclusion", "halt"} <= set(kinds(events))


def test_spending_reports_the_main_model_and_governance_apart(
    provider: StrictProvider, memory: Memory
) -> None:
    """The event, and LangChain's own count by model, agree to the token."""
    agent = governed(provider, memory, IN_LINE)
    usage = UsageMetadataCallbackHandler()
    events = rounds(agent, 12, {**config(), "callbacks": [usage]})
    spent = of(events, "spending")[-1]
    main, cheap = (usage.usage_metadata[name]["total_tokens"] for name in ("strict-main", "cheap"))
    assert cheap > 0
    assert (spent["tokens"], spent["governance"]) == (main, cheap)
    assert spent["steps"] == len(of(events, "request"))
    assert agent.get_state(config()).values["frame"]["spent"] == cheap


def test_callbacks_hear_of_background_runs(provider: StrictProvider, memory: Memory) -> None:
    usage = UsageMetadataCallbackHandler()
    agent = governed(provider, memory, AHEAD)
    rounds(agent, 12, {**config(), "callbacks": [usage]})
    assert memory.runs.wait(60)
    events = rounds(agent, 1, {**config(), "callbacks": [usage]})
    cheap = usage.usage_metadata["cheap"]["total_tokens"]
    assert of(events, "spending")[-1]["governance"] == cheap == memory.runs.standing("t").spent


def test_callbacks_hear_of_a_child_in_the_background(memory: Memory) -> None:
    order = ToolCall("delegate", {"agent": "scout", "brief": "look", "wait": False})
    script = delegating(lambda request: Reply("All is well."), order, answer="Begun.")
    usage = UsageMetadataCallbackHandler()
    with StrictProvider(script, window=WINDOW, models={"small": ModelSpec(WINDOW)}) as provider:
        scout = SubAgent("scout", "looks", prompt="You scout.", model=provider.openai("small"))
        agent: Any = build_agent(
            provider.openai(), subagents=[scout], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        stream = list(agent.stream(says("Look."), {**config(), "callbacks": [usage]}, stream_mode="messages"))
        (begun,) = engine_of(agent).background.begun.values()
        assert begun.future.result(30).status == "done"
    assert usage.usage_metadata["small"]["total_tokens"] > 0
    assert not any("All is well." in str(message.content) for message, _ in stream)


def test_a_summary_is_not_streamed_as_the_agents_words(provider: StrictProvider, memory: Memory) -> None:
    agent = governed(provider, memory, IN_LINE)
    said = ""
    for number in range(12):
        stream = agent.stream(says(f"Check {number}."), config(), stream_mode="messages")
        said += "".join(str(message.content) for message, _ in stream)
    assert memory.archive.compartments("t")
    assert "Done with this one." in said
    assert "all of them are well" not in said


class Heard(BaseCallbackHandler):
    """The models that were called, with tags and metadata."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], dict[str, Any]]] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kw: Any) -> None:
        self.calls.append((list(kw.get("tags") or ()), dict(kw.get("metadata") or {})))


async def test_tags_and_metadata_tell_governance_from_the_agent(
    provider: StrictProvider, memory: Memory
) -> None:
    agent, heard = governed(provider, memory, IN_LINE), Heard()
    for number in range(12):
        await agent.ainvoke(says(f"Check {number}."), {**config(), "callbacks": [heard]})
    historian = [found for tags, found in heard.calls if "headwater:historian" in tags]
    agents = [found for tags, found in heard.calls if "headwater:historian" not in tags]
    assert {found["headwater"] for found in historian} == {"historian"}
    assert {found["headwater"] for found in agents} == {"agent"}
    assert {found["langgraph_node"] for found in historian} == {"summarize"}


@pytest.fixture
def spans() -> Iterator[Any]:
    instrumentation = pytest.importorskip(
        "openinference.instrumentation.langchain", reason="pip install 'headwater[otel]'"
    )
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, tracing = InMemorySpanExporter(), TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = instrumentation.LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=tracing)
    yield exporter
    instrumentor.uninstrument()


def paths(exporter: Any) -> set[str]:
    """Each span as the names from its root to it."""
    found = {span.context.span_id: span for span in exporter.get_finished_spans()}

    def path(span: Any) -> str:
        above = found[span.parent.span_id] if span.parent is not None else None
        return f"{path(above)}/{span.name}" if above is not None else str(span.name)

    return {path(span) for span in found.values()}


def models_in(exporter: Any) -> list[Any]:
    """The spans of model calls."""
    return [s for s in exporter.get_finished_spans() if s.attributes["openinference.span.kind"] == "LLM"]


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_opentelemetry_shows_governance_as_spans_under_the_run(
    spans: Any, provider: StrictProvider, tmp_path: Path, way: str
) -> None:
    with memory_in(tmp_path) as memory:
        agent = governed(provider, memory, IN_LINE)
        for number in range(12):
            if way == "sync":
                await asyncio.to_thread(agent.invoke, says(f"Check {number}."), config())
            else:
                await agent.ainvoke(says(f"Check {number}."), config())
    seen = paths(spans)
    for node in ("intake", "watermark", "agent", "tools", "summarize", "remember"):
        assert f"headwater/{node}" in seen
    assert any(p.startswith("headwater/agent/") and p.endswith("ChatOpenAI") for p in seen), seen
    assert any(p.startswith("headwater/summarize/") and p.endswith("historian") for p in seen), seen
    roles = [json.loads(s.attributes["metadata"])["headwater"] for s in models_in(spans)]
    assert set(roles) == {"agent", "historian"}


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_the_middleware_shows_the_same_spans_in_a_foreign_agent(
    spans: Any, provider: StrictProvider, memory: Memory, way: str
) -> None:
    middleware = GovernanceMiddleware(
        memory=memory, policy=IN_LINE, summarizer=provider.openai("cheap", purpose="summarizer")
    )
    agent: Any = create_agent(
        provider.openai(), tools=[inspector(400)], middleware=[middleware], checkpointer=InMemorySaver()
    )
    for number in range(12):
        if way == "sync":
            await asyncio.to_thread(agent.invoke, says(f"Check {number}."), config())
        else:
            await agent.ainvoke(says(f"Check {number}."), config())
    roles = [json.loads(s.attributes["metadata"]).get("headwater") for s in models_in(spans)]
    assert roles.count("historian") >= 1
    assert roles.count("historian") < len(roles)
    ends = {tuple(p.split("/")[-2:]) for p in paths(spans)}
    assert {("model", "intake"), ("model", "watermark"), ("summarize", "historian")} <= ends, ends
