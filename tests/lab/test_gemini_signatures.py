"""Gemini 3's thought signatures: what the strict server asks for, and that no act of governance loses one."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from headwater import WindowPolicy, build_agent
from headwater.lab.provider import Exchange, Reply, StrictProvider, ToolCall
from headwater.lab.rules import Ask, Strictness, first_violation
from headwater.lab.rules_gemini import GEMINI_RULES
from headwater.lab.rules_gemini_thoughts import UNSIGNED, sign_call
from headwater.window.frame import Frame
from headwater.window.providers import ROWS, provider_of
from headwater.window.render import Texts, render
from tests.graph.world import Agent, calls_then, config, inspector, last_text, memory_in, of, says, watch
from tests.lab.test_gemini import RESPONSE, Body, read, say, turn
from tests.lab.test_provider_rules import post
from tests.window.histories import logs
from tests.window.test_providers import frames, heads

MODEL = "gemini-3-pro"
PATH = f"/v1beta/models/{MODEL}:generateContent"


def call(signature: str = "", name: str = "read") -> Body:
    part: Body = {"functionCall": {"name": name, "args": {"path": "x"}}}
    return {**part, "thoughtSignature": signature} if signature else part


def good() -> Body:
    """An old round that lost its signature, and the current one: parallel calls, then one more step."""
    return {
        "contents": [
            turn("user", {"text": "q"}),
            turn("model", call()),
            turn("user", RESPONSE),
            turn("model", {"text": "done"}, {"text": "", "thoughtSignature": sign_call(1, "")}),
            turn("user", {"text": "again"}),
            turn("model", call(sign_call(2, "read")), call()),
            turn("user", RESPONSE, RESPONSE),
            turn("model", call(UNSIGNED[0])),
            turn("user", RESPONSE),
        ]
    }


Harm = Callable[[list[Body]], Any]
CASES: list[tuple[str, Harm]] = [
    ("calls_signed", lambda c: c[5]["parts"][0].pop("thoughtSignature")),
    ("calls_signed", lambda c: c[7]["parts"][0].pop("thoughtSignature")),
    ("calls_signed", lambda c: c[5]["parts"].reverse()),
    ("signatures_hold", lambda c: c[5]["parts"][0].update(thoughtSignature=sign_call(2, "search"))),
    ("signatures_hold", lambda c: c[7]["parts"][0].update(thoughtSignature=sign_call(2, "read"))),
    ("signatures_hold", lambda c: c[1]["parts"][0].update(thoughtSignature="c2ln")),
    ("signatures_hold", lambda c: c[1]["parts"][0].update(thoughtSignature="no base64!")),
]


@pytest.mark.parametrize(("rule", "harm"), CASES, ids=[f"{i}-{rule}" for i, (rule, _) in enumerate(CASES)])
def test_users_22_gemini_3_refuses_a_call_without_its_signature(rule: str, harm: Harm) -> None:
    bad = good()
    harm(bad["contents"])
    with StrictProvider(lambda request: Reply("ok")) as provider:
        assert post(provider, PATH, good())[0] == 200
        assert post(provider, PATH, bad)[0] == 400
        assert provider.requests[-1].rule == rule
        older = PATH.replace("gemini-3-pro", "gemini-2.5-pro")
        assert post(provider, older, bad)[0] == 200, "earlier models ask for none"


def sent(exchange: Exchange) -> list[Body]:
    contents: list[Body] = json.loads(exchange.raw or b"")["contents"]
    return contents


def signatures(exchange: Exchange) -> list[str]:
    """The signatures of the first calls that went over the wire, "" where there was none."""
    out = []
    for content in sent(exchange):
        calls = [part for part in content["parts"] if "functionCall" in part]
        out += [str(calls[0].get("thoughtSignature", ""))] if calls else []
    return out


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
async def test_the_real_client_takes_signatures_and_brings_them_back(way: str) -> None:
    calls = (ToolCall("read", {"path": "文件.py"}), ToolCall("read", {"path": "b"}))
    replies = [Reply("Both.", calls, "Think first."), Reply("", calls[:1]), Reply("done."), Reply("bye")]
    with StrictProvider(replies, keep_raw=True) as provider:
        model = provider.gemini(MODEL).bind_tools([read])
        log: list[BaseMessage] = [HumanMessage("go")]
        for _ in range(3):
            log.append(await say(model, way, log))
            log += [ToolMessage("r", tool_call_id=c["id"]) for c in getattr(log[-1], "tool_calls", [])]
        log.append(await say(model, way, [*log, HumanMessage("and?")]))
        assert provider.violations == []
        found = signatures(provider.requests[-1])
        last = sent(provider.requests[-1])[-2]
    assert str(log[-1].text) == "bye"
    made = [base64.urlsafe_b64decode(signature).split(b":")[:3] for signature in found]
    assert made == [[b"strict-gemini", b"0", b"read"], [b"strict-gemini", b"1", b"read"]]
    assert last["role"] == "model"
    assert any(part.get("thoughtSignature") for part in last["parts"]), "the text's own comes back too"


def agent_of(model: Any, root: Path, saver: InMemorySaver, **more: Any) -> Agent:
    return build_agent(model, memory=memory_in(root), checkpointer=saver, tools=[inspector(300)], **more)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("assumed", [12_000, 24_000], ids=["governed", "refused"])
def test_users_22_no_signature_is_lost_over_offload_compaction_and_a_refusal(
    tmp_path: Path, stream: bool, assumed: int
) -> None:
    """Every call of the session is Gemini's own: none may go out as one that nobody signed."""
    with StrictProvider(calls_then(60), window=12_000, keep_raw=True) as provider:
        policy = WindowPolicy(window=assumed)
        agent = agent_of(provider.gemini(MODEL, streaming=stream), tmp_path, InMemorySaver(), policy=policy)
        events = watch(agent, says("Inspect all."), config())
        assert last_text(agent.get_state(config()).values) == "All done."
        watch(agent, says("And again."), config())
    assert provider.violations == []
    assert of(events, "offload") or of(events, "summarize") or of(events, "reclaim")
    assert provider.totals().refused == (assumed == 24_000)
    seen = [signature for exchange in provider.requests for signature in signatures(exchange)]
    assert len(seen) > 200
    assert "" not in seen
    assert not set(UNSIGNED) & set(seen)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("before", ["openai", "anthropic", "gemini-2.5-pro", MODEL])
def test_users_22_a_session_goes_on_in_the_middle_of_a_round_after_a_change_of_model(
    tmp_path: Path, before: str, stream: bool
) -> None:
    """What another model called has no signature: it is said so, and only of what has none."""
    saver = InMemorySaver()
    with StrictProvider(calls_then(9), keep_raw=True) as provider:
        first = (
            provider.gemini(before, streaming=stream)
            if before.startswith("gemini")
            else getattr(provider, before)(streaming=stream)
        )
        policy = WindowPolicy(window=24_000)
        one = agent_of(first, tmp_path, saver, policy=policy)
        one.invoke(says("Inspect all."), {**config(), "recursion_limit": 9_999}, interrupt_before=["tools"])
        for _ in range(3):
            one.invoke(None, config(), interrupt_before=["tools"])
        after = provider.gemini(MODEL, streaming=stream)
        two = agent_of(after, tmp_path, saver, policy=policy)
        assert last_text(two.invoke(None, config())) == "All done."
        assert provider.violations == []
        found = signatures(provider.requests[-1])
        back = agent_of(provider.openai(), tmp_path, saver, policy=policy)
        back.invoke(says("Thanks."), config())
        clean = agent_of(provider.anthropic(), tmp_path, saver, policy=policy)
        clean.invoke(says("Thanks."), config())
        assert provider.violations == []
        left = [x.raw or b"" for x in provider.requests[-2:]]
    unsigned = [s for s in found if s in UNSIGNED]
    assert len(unsigned) == (0 if before == MODEL else 4)
    assert found[: len(unsigned)] == unsigned
    assert not any(b"signature" in raw.lower() or b"strict-gemini" in raw for raw in left)


@settings(max_examples=100, deadline=None)
@given(logs(max_size=18), frames, heads)
def test_users_21_22_every_rendered_request_passes_through_the_real_client(
    log: list[BaseMessage], frame: Frame, texts: Texts
) -> None:
    """The client's own conversion, judged by the strict server's rules, foreign signatures let through."""
    parse = pytest.importorskip("langchain_google_genai.chat_models")._parse_chat_history
    row = ROWS["gemini-signed"]
    request = render(frame, log, texts, row)
    if not request:
        return
    _, contents = parse(request, model=MODEL)
    body = {"contents": [c.model_dump(mode="json", exclude_none=True, warnings=False) for c in contents]}
    ask = Ask(body, Strictness(foreign_thinking=True), model=MODEL)
    assert first_violation(GEMINI_RULES, ask) is None


def test_gemini_3_and_later_have_a_row_of_their_own() -> None:
    with StrictProvider([]) as provider:
        assert provider_of(provider.gemini(MODEL)).signed_calls
        assert provider_of(provider.gemini("gemini-4-flash")).signed_calls
        assert not provider_of(provider.gemini("gemini-2.5-pro")).signed_calls
