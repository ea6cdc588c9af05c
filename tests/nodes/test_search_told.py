"""`ctx_search` over what was told: by meaning as well as by words, opened by `ctx_expand`."""

from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from headwater.memory import Memory
from headwater.nodes.adopt import put
from headwater.nodes.context_tools import context_tools
from headwater.nodes.engine import Engine
from headwater.nodes.intake import intake
from headwater.window.compartments import Compartment
from headwater.window.frame import Frame
from tests.nodes.bench import engine, frame_of, state_of

TOLD = "Users could not sign in on Monday: an expired TLS certificate, which was renewed."


def use(made: Engine, name: str, state: Any = None, **args: Any) -> str:
    (tool,) = (t for t in context_tools(made) if t.name == name)
    found: str = tool.invoke({**args, "state": state or {"frame": Frame(session="s").to_state()}})
    return found


def with_vectors(root: Path) -> Engine:
    made = engine(root / "unused")
    return Engine(made.model, Memory(root, repository=False), policy=made.policy, clock=made.clock)


def monday(made: Engine, session: str = "monday") -> None:
    config: Any = {"configurable": {"thread_id": session}}
    log: list[Any] = [
        HumanMessage("客户打不开页面"),
        HumanMessage("auth-gw-2 :443 openssl s_client"),
        HumanMessage("好了"),
    ]
    intake(made)({"messages": log}, config)
    put(made, session, Compartment(1, 3, "Outage", TOLD), [1, 2, 3])


def test_g28_g36_a_question_in_other_words_or_another_language_finds_what_was_told(tmp_path: Path) -> None:
    made = with_vectors(tmp_path)
    monday(made)
    assert made.memory.compartments.settle(60)
    for question in ("people were unable to log in", "登录故障的原因"):
        assert made.memory.archive.search("monday", question) == []
        (line,) = use(made, "ctx_search", query=question).splitlines()
        where = "told of another session: ctx_expand(tags=\"1-3\", session='monday')"
        assert line.startswith(f"{where}: Outage: Users could not")
    assert "auth-gw-2" in use(made, "ctx_expand", tags="1-3", session="monday")
    made.memory.close()


def test_g28_what_was_told_of_this_session_is_shown_unless_it_is_in_sight(tmp_path: Path) -> None:
    made = engine(tmp_path)
    log = [HumanMessage(f"line {n}", id=f"l{n}") for n in range(4)]
    state = state_of(made, log)
    row = put(made, "s", Compartment(1, 2, "Outage", TOLD), [1, 2])
    query = "certificate"
    assert "told" not in use(made, "ctx_search", state, query=query), "its messages are in the tail"
    left: Any = {**state, "messages": state["messages"][2:]}
    left["frame"] = {**left["frame"], "boundary": 2, "told": [row.id]}
    assert use(made, "ctx_search", left, query=query).startswith('told: ctx_expand(tags="1-2"): Outage')
    shown = made.store_text(f"### §1–2§ Outage\n{TOLD}", frame_of(left))
    left["frame"] = {**left["frame"], "baseline": shown}
    assert "told" not in use(made, "ctx_search", left, query=query)


def test_g28_another_branch_of_the_thread_does_not_find_what_was_told_of_this_one(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = state_of(made, [HumanMessage(f"line {n}", id=f"l{n}") for n in range(2)])
    made.memory.archive.append("s", [HumanMessage("elsewhere", id="e1"), HumanMessage("elsewhere", id="e2")])
    put(made, "s", Compartment(3, 4, "Outage", TOLD), [3, 4])
    assert "told" not in use(made, "ctx_search", state, query="certificate")
