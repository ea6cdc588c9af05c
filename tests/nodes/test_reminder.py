"""C17: an optional, periodic "anything to remember?", whose cost is seen."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from headwater.memory import RecallBlockRefused
from headwater.nodes import reminder
from headwater.nodes.engine import Engine
from headwater.nodes.intake import intake
from headwater.window.policy import PolicyError, WindowPolicy
from headwater.window.tokens import count_text
from tests.nodes.bench import CONFIG, after, engine, frame_of, state_of


def led(made: Engine, rounds: int, word: str = "Go on with part") -> Any:
    """A session of so many rounds, each of a user's message and an answer."""
    state: Any = state_of(made, [HumanMessage(f"{word} 0, please.", id="u0")])
    for number in range(1, rounds):
        answer = AIMessage(f"Part {number} is done.", id=f"a{number}")
        asked = HumanMessage(f"{word} {number}.", id=f"u{number}")
        grown = after(state, {"messages": [answer, asked]})
        state = after(grown, intake(made)(grown, CONFIG))
    return state


def test_c17_the_model_is_asked_every_so_many_messages_and_never_unless_wanted(tmp_path: Path) -> None:
    asked = led(engine(tmp_path / "a", WindowPolicy(window=8_192, remind=6)), 12)
    assert sorted(frame_of(asked).hints) == [7, 13, 19]
    assert "ctx_memory" in frame_of(asked).hints[7]
    assert not frame_of(led(engine(tmp_path / "b"), 12)).hints
    with pytest.raises(PolicyError, match="remind=-1"):
        WindowPolicy(remind=-1)


def test_c17_it_speaks_the_sessions_language_and_its_cost_is_counted_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(reminder, "emit", lambda kind, **data: told.append({"type": kind, **data}))
    made = engine(tmp_path / "a", WindowPolicy(window=8_192, remind=4))
    state = led(made, 3, "请继续处理第二部分的数据库迁移工作")
    (text,) = frame_of(state).hints.values()
    assert "以后的会话" in text
    assert told == [{"type": "reminder", "session": "s", "tag": 5, "tokens": count_text(text)}]
    silent = engine(tmp_path / "b")
    quiet = led(silent, 3, "请继续处理第二部分的数据库迁移工作")
    with made.view(frame_of(state), state["messages"]) as view:
        loud = made.estimate(frame_of(state), view)
    with silent.view(frame_of(quiet), quiet["messages"]) as view:
        assert loud - silent.estimate(frame_of(quiet), view) >= count_text(text)


def test_c17_a_sub_agent_is_not_asked_and_the_question_is_no_fact(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=8_192, remind=1), delegated=True)
    assert not frame_of(led(made, 4)).hints
    for text in reminder._TEXT.values():
        with pytest.raises(RecallBlockRefused):
            made.memory.facts.write(text, "NAMING")
