"""The guard around the models that tell history: what one refusal teaches them, and whom it teaches."""

from dataclasses import replace
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from headwater.graph import build_agent
from headwater.lab.provider import Exchange, ModelSpec, Refuse, Reply, Request, StrictProvider
from headwater.nodes.endpoints import endpoint_of
from headwater.window.policy import WindowPolicy
from tests.graph.test_background import GOOD
from tests.graph.world import Agent, config, inspector, memory_in, of, says, turns_of, watch

WINDOW, TRUE = 32_768, 2_500
POLICY = WindowPolicy(
    window=WINDOW, offload=0.4, compact=0.5, min_result=10_000, summarise="line", background=False
)


def provider_of(script: object = None, window: int = TRUE) -> StrictProvider:
    main = turns_of(400)

    def answer(request: Request) -> Reply:
        if request.purpose != "summarizer":
            return main(request)
        return script(request) if callable(script) else Reply(GOOD)

    cheap = {"cheap": ModelSpec(window), "second": ModelSpec(64_000)}
    return StrictProvider(answer, window=WINDOW, models=cheap, keep_raw=True)


def agent_in(provider: StrictProvider, root: Path, *tellers: str, policy: WindowPolicy = POLICY) -> Agent:
    return build_agent(
        provider.openai(),
        tools=[inspector(400)],
        policy=policy,
        memory=memory_in(root),
        checkpointer=InMemorySaver(),
        summarizer=[provider.openai(name, purpose="summarizer") for name in tellers],
    )


def compact(agent: Agent, thread: str, times: int) -> None:
    told = number = 0
    while told < times:
        told += len(of(watch(agent, says(f"Check unit {number}."), config(thread)), "summarize"))
        number += 1
        assert number < 120, "it never gets there"


def asked(provider: StrictProvider) -> list[Exchange]:
    return [x for x in provider.requests if x.purpose == "summarizer"]


def test_g33_the_summariser_is_refused_once_and_the_next_process_never(tmp_path: Path) -> None:
    with provider_of() as provider:
        compact(agent_in(provider, tmp_path, "cheap"), "first", 3)
        rows = asked(provider)
        assert [x.status for x in rows].count(400) == 1, "one refusal teaches every later chunk"
        before = len(rows)
        agent = agent_in(provider, tmp_path, "cheap")
        known = memory_in(tmp_path).limits.all()[endpoint_of(provider.openai("cheap"))]
        compact(agent, "second", 2)
        later = asked(provider)[before:]
        assert later
        assert all(x.status == 200 for x in later)
        assert provider.violations == []
    assert known[0] == TRUE


def test_g33_a_limit_that_is_not_stated_holds_for_the_process(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        if len(str(request.messages)) > 7_000:
            raise Refuse(400, {"error": {"type": "invalid_request_error", "message": "prompt is too long"}})
        return Reply(GOOD)

    with provider_of(script, 64_000) as provider:
        compact(agent_in(provider, tmp_path, "cheap"), "first", 3)
        statuses = [x.status for x in asked(provider)]
    assert statuses.count(400) == 1
    assert not memory_in(tmp_path).limits.all(), "our own count proves nothing to the next process"


@pytest.mark.parametrize("background", [False, True])
def test_m19_what_the_summariser_refused_no_fallback_is_sent(tmp_path: Path, background: bool) -> None:
    """M19: a refusal as too long is no failure of the model: the stretch is halved, not handed on."""
    policy = replace(POLICY, background=background)
    with provider_of() as provider:
        agent = agent_in(provider, tmp_path, "cheap", "second", policy=policy)
        compact(agent, "t", 2)
        rows = asked(provider)
        refused = [x for x in rows if x.status == 400]
        assert len(refused) == 1
        assert {x.model for x in rows} == {"cheap"}
        assert len({x.raw for x in rows}) == len(rows), "never the same bytes twice"
        assert rows[rows.index(refused[0]) + 1].input_tokens < refused[0].input_tokens
