"""The reminder: now and then a new user message asks whether there is anything to remember (C17).

Off unless `WindowPolicy.remind` says how often. It costs no request of its own: a line behind the message,
decided once and frozen like a hint, counted in the estimate and reported as an event.
"""

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from headwater.nodes.engine import Engine
from headwater.nodes.events import emit
from headwater.window.frame import Frame
from headwater.window.marks import tag_of
from headwater.window.tokens import count_text

# The enclosing tag makes it recall: a fact that repeats it is refused.
_TEXT = {
    "en": "<headwater-reminder>Has anything come up that later sessions should know (a rule, a decision, a "
    'value)? Then keep it with ctx_memory(action="write"). If not, go on.</headwater-reminder>',
    "zh": "<headwater-reminder>有没有以后的会话也需要知道的内容（规则、决定、取值）？"
    '有就用 ctx_memory(action="write") 记下；没有就继续。</headwater-reminder>',
}


def reminder_for(
    engine: Engine, frame: Frame, messages: Sequence[BaseMessage], fresh: Sequence[BaseMessage]
) -> tuple[int, str] | None:
    """The tag of the newest of the fresh user messages and the reminder behind it; None where none is due.

    One is due at the first user message at or behind every multiple of `WindowPolicy.remind`. A sub-agent
    gets none: what is worth keeping is in its conclusion.

    Args:
        engine: Its policy says how often.
        frame: Whose language it is in.
        messages: The live tail as it was.
        fresh: The new messages, numbered.
    """
    every = engine.policy.remind
    message = next((m for m in reversed(fresh) if isinstance(m, HumanMessage)), None)
    if not every or message is None or engine.delegated:
        return None
    before = max((tag_of(m) for m in messages if isinstance(m, HumanMessage)), default=frame.boundary)
    tag = tag_of(message)
    if tag // every <= before // every:
        return None
    text = _TEXT.get(frame.language, _TEXT["en"])
    emit("reminder", session=frame.session, tag=tag, tokens=count_text(text))
    return tag, text
