"""The cap on what governance spends: an account of its own, and the deterministic path once it is spent."""

import json
from collections.abc import Sequence

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import Exchange, ModelSpec, Reply, Request, StrictProvider
from tests.graph.world import Event, config, of, says, shown, watch

WINDOW = 16_384
CAP = 9_000
ROUNDS = 18
TALK = " ".join(f"Part {i} of the plant is as it was." for i in range(200))
SUMMARY = json.dumps({"title": "t", "p1": "The plant was looked at, part by part, and all is as it was."})


@pytest.mark.parametrize("background", [False, True], ids=["in line", "background"])
@pytest.mark.parametrize("cap", [0, CAP, None])
def test_m14_g38_governance_spends_from_its_own_account_and_never_more_than_its_cap(
    memory: Memory, background: bool, cap: int | None
) -> None:
    """M14, G38: what a summariser is asked and answers stays within the cap, background runs included; when
    it is spent the digest tells the rest, no step fails, and the agent's own account has none of it.
    """
    asked: list[Request] = []

    def script(request: Request) -> Reply:
        if request.purpose == "summarizer":
            return Reply(SUMMARY)
        asked.append(request)
        return Reply(TALK)

    policy = WindowPolicy(
        window=WINDOW, offload=0.4, compact=0.6, background=background, governance=cap, keep_tokens=1_000
    )
    with StrictProvider(script, window=WINDOW, models={"cheap": ModelSpec(64_000)}) as provider:
        agent = build_agent(
            provider.openai(),
            policy=policy,
            memory=memory,
            checkpointer=InMemorySaver(),
            summarizer=provider.openai("cheap", purpose="summarizer"),
            clock=lambda: 0.0,
        )
        events: list[Event] = []
        for number in range(ROUNDS):
            events += watch(agent, says(f"Look again {number}. Never open V-{number}."), config())
            assert memory.runs.wait(60) if background else True
        own, cheap = ([x for x in provider.requests if x.purpose == p] for p in ("", "summarizer"))
        assert provider.violations == []
    values = agent.get_state(config()).values
    ahead = memory.runs.standing("t").spent if background else 0
    booked = values["frame"]["spent"] + ahead
    assert booked >= tokens(cheap), "all that was asked for is on the account"
    if cap is not None:
        assert booked <= cap
    assert values["purse"]["tokens"] == tokens(own), "nothing of it is on the agent's account"
    told = [source for event in of(events, "summarize") for source in event["sources"]]
    assert told
    if cap is None:
        assert "digest" not in told
        assert booked > CAP, "the cap would not have held anything back"
    else:
        assert told[-1] == "digest"
        assert ("model" in told) == (cap > 0)
    assert "Never open V-0." in shown(asked[-1])


def tokens(exchanges: Sequence[Exchange]) -> int:
    """What the provider served: input and output."""
    return sum(x.input_tokens + x.output_tokens for x in exchanges if x.status == 200)
