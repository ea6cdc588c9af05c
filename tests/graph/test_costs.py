"""What is sent costs: when it pays to move the window, and that a session grows no dearer by the step."""

from dataclasses import replace

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, Prices, WindowPolicy, build_agent
from headwater.lab.provider import Reply, Request, StrictProvider
from headwater.window import count_tokens
from tests.graph.world import (
    UNCACHED,
    WINDOW,
    body,
    calls_then,
    clean_run,
    config,
    inspector,
    kinds,
    of,
    says,
    turns_of,
    watch,
)


def test_e4_tokens_sent_grow_linearly_not_with_the_square(memory: Memory) -> None:
    """E4: twice the rounds cost about twice the tokens; unmanaged they would cost four times."""

    def sent(rounds: int) -> int:
        with StrictProvider(calls_then(rounds), window=WINDOW) as provider:
            agent = build_agent(
                provider.openai(),
                tools=[inspector(300)],
                policy=WindowPolicy(window=WINDOW),
                memory=memory,
                prices=UNCACHED,
            )
            agent.invoke(says("Inspect all."), config(f"rounds-{rounds}"))
            clean_run(provider)
            return provider.totals().sent_tokens

    once, twice = sent(25), sent(50)
    unmanaged = sum(count_tokens([ToolMessage(body(1, 300), tool_call_id="x")]) * i for i in range(50))
    assert twice < 2.6 * once
    assert twice < unmanaged / 3


def test_m16_without_the_chain_the_same_task_does_not_fit(memory: Memory) -> None:
    """M16, ablation: offloading off, the same script needs summaries; both off, only reclaim is left."""
    acted: dict[str, list[str]] = {}
    none = WindowPolicy(window=WINDOW, min_result=100_000, min_arguments=100_000)
    for name, policy in {
        "offload": WindowPolicy(window=WINDOW),
        "no offload": none,
        "neither": replace(none, summarise="never"),
    }.items():
        with StrictProvider(turns_of(14), window=WINDOW) as provider:
            agent = build_agent(
                provider.openai(),
                tools=[inspector(500)],
                policy=policy,
                memory=memory,
                checkpointer=InMemorySaver(),
                prices=UNCACHED,
            )
            events = []
            for _ in range(14):
                events += watch(agent, says("Inspect one more."), config(name))
            clean_run(provider)
        acted[name] = kinds(events)
    assert acted["offload"].count("summarize") < acted["no offload"].count("summarize")
    assert "offload" not in acted["neither"]
    assert "summarize" not in acted["neither"]
    assert "reclaim" in acted["neither"]


def test_prices_uncached_offload_early(memory: Memory) -> None:
    """Without a prefix cache waiting saves nothing, so what has left the zone goes at once."""
    counted = {}
    for name, prices in {"uncached": UNCACHED, "cached": Prices()}.items():
        with StrictProvider(calls_then(10), window=128_000) as provider:
            agent = build_agent(
                provider.openai(),
                tools=[inspector(300)],
                policy=WindowPolicy(window=128_000, keep_tags=4, keep_messages=4),
                memory=memory,
                prices=prices,
            )
            counted[name] = len(of(watch(agent, says("Inspect."), config(name)), "offload"))
    assert counted["uncached"] > counted["cached"] >= 0


def test_g10_the_cache_is_taken_to_live_from_the_request_not_from_the_answer(memory: Memory) -> None:
    """An edit that a cold cache lets through happens when the provider's is cold, not a step late."""
    now = 0.0

    def slow(request: Request) -> Reply:
        nonlocal now
        now += 250
        return script(request)

    script = calls_then(12)
    with StrictProvider(slow, window=100_000, ttl=300, clock=lambda: now) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(words=200)],
            policy=WindowPolicy(window=100_000),
            prices=Prices(),
            memory=memory,
            clock=lambda: now,
        )
        frame = agent.invoke(says("Inspect every unit of the plant."), config())["frame"]
        assert frame["asked"] == 250 * 12  # when the thirteenth request was made; its answer came at 3,250
        assert all(x.cached_tokens for x in provider.requests[1:])


def test_a_model_switch_is_one_fold_and_nothing_is_lost(memory: Memory) -> None:
    """G12: another model means another prefix; the queue is drained in the same pass."""
    saver = InMemorySaver()
    with StrictProvider(turns_of(40), window=64_000) as provider:
        one = build_agent(
            provider.openai("one"),
            tools=[inspector(400)],
            policy=WindowPolicy(window=64_000),
            memory=memory,
            checkpointer=saver,
        )
        for number in range(14):
            one.invoke(says(f"Check {number}."), config())
        two = build_agent(
            provider.openai("two"),
            tools=[inspector(400)],
            policy=WindowPolicy(window=64_000),
            memory=memory,
            checkpointer=saver,
        )
        events = watch(two, says("Go on."), config())
        clean_run(provider)
    first = of(events, "offload")[0]
    assert (first["kind"], first["reason"]) == ("fold", "identity")
    assert len(first["tags"]) >= 4
    assert sum(e["kind"] == "fold" for e in of(events, "offload")) == 1


def test_uncached_prices_never_send_more_than_the_lines_allow(memory: Memory) -> None:
    with StrictProvider(turns_of(30), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(500)],
            policy=WindowPolicy(window=WINDOW),
            memory=memory,
            prices=UNCACHED,
            checkpointer=InMemorySaver(),
        )
        for number in range(12):
            agent.invoke(says(f"Check {number}."), config())
        clean_run(provider)
        assert max(x.input_tokens for x in provider.requests) < WindowPolicy(window=WINDOW).lines().exhausted
