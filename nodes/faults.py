"""What can be wrong with an answer and what is done: refusals, silent overflows, unreadable calls."""

import json
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from headwater.memory.limits import SMALLEST
from headwater.nodes.engine import Engine
from headwater.nodes.events import emit
from headwater.window.cut_prompts import Reports, cut_at, hear
from headwater.window.face import text_of
from headwater.window.frame import Frame
from headwater.window.overflow import Overflow, parse_overflow, silent_overflow
from headwater.window.providers import cap_name
from headwater.window.sizes import model_name

MIN_OUTPUT = 256
_NOTE = (
    "(Your last tool call could not be read: its arguments were no valid JSON object. Make the call again.)"
)
_SAID = {
    "en": "The model twice made tool calls that could not be read ({names}), so nothing was run. "
    "Ask again, or use another model.",
    "zh": "模型连续两次给出无法解析的工具调用（{names}），因此没有执行任何操作。请重试，或换用其他模型。",
}


def overflow_in(engine: Engine, answer: AIMessage | Exception) -> Overflow | None:
    """The overflow that an error states, or that an answer with nothing in it leaves unsaid (M17)."""
    if isinstance(answer, Exception):
        return parse_overflow(answer)
    if text_of(answer).strip() or answer.tool_calls or not answer.usage_metadata:
        return None
    about = answer.response_metadata
    reason = about.get("finish_reason") or about.get("stop_reason")
    found = silent_overflow(dict(answer.usage_metadata), engine.window.tokens, str(reason or ""))
    # The window is our own assumption here: it teaches nothing.
    return None if found is None else found._replace(limit=None)


def heard(engine: Engine, frame: Frame, answer: AIMessage, tokens: int) -> Reports:
    """What the reports have shown of this model, this answer's among them.

    Args:
        engine: Of the agent.
        frame: As it was for the request.
        answer: What came.
        tokens: Of the request by our count, tool schemas left out.
    """
    usage = answer.usage_metadata
    reported = usage["input_tokens"] if usage else 0
    details = (usage.get("input_token_details") if usage else None) or {}
    cached = (details.get("cache_read") or 0) + (details.get("cache_creation") or 0)
    if cached > reported:
        # Some relays leave out of the sum what a cache gave.
        reported += cached
    return hear(
        frame.reports,
        tokens + engine.fixed_tokens,
        reported,
        model=engine.endpoint,
        revision=frame.revision,
    )


def cut_in(engine: Engine, frame: Frame, answer: AIMessage | Exception, tokens: int) -> Overflow | None:
    """The overflow that a server hid by cutting the prompt: it answers in full, its reports stand still.

    `window/cut_prompts.py` says what proves it. Where system prompt and tools would not fit what the server
    keeps there is nothing to be done, and None.
    """
    if not isinstance(answer, AIMessage):
        return None
    reports = heard(engine, frame, answer, tokens)
    limit = cut_at(reports)
    if limit is None or not SMALLEST <= limit < engine.window.tokens or not engine.fits(limit):
        return None
    return Overflow(limit, reports.expected, "silent")


def note_larger(engine: Engine, frame: Frame, answer: AIMessage) -> None:
    """Say that a full answer came to more than the window that is assumed; nothing is taken out for it."""
    charged = answer.usage_metadata["input_tokens"] if answer.usage_metadata else 0
    if charged > engine.window.tokens:
        emit("window_larger", session=frame.session, assumed=engine.window.tokens, reported=charged)


def by_another(engine: Engine, answer: AIMessage | Exception) -> bool:
    """Whether a refusal is another model's: one that was asked in the place of the engine's own.

    The client's error holds the request it sent; where it does not, the model is taken for the engine's.
    """
    sent = getattr(getattr(answer, "request", None), "content", None)
    try:
        body = json.loads(sent) if sent else {}
    except ValueError:
        return False
    named = body.get("model") if isinstance(body, dict) else None
    return bool(named) and named != model_name(engine.model)


def lower_cap(engine: Engine, frame: Frame, tokens: int, overflow: Overflow) -> bool:
    """Set the output cap to what is left beside the input; whether that is a lower one, so worth a try."""
    counted = int((tokens + engine.fixed_tokens) * max(1.0, frame.scale))
    asked = engine.output_cap or engine.lines.window - engine.lines.usable
    left = (overflow.limit - int(1.1 * counted)) if overflow.limit else asked // 2
    if left < MIN_OUTPUT or left >= asked:
        left = asked // 2
    if overflow.limit is not None:
        engine.learn(overflow.limit)
        # Not all that is free now: the input grows, and each step would be refused once.
        left = min(left, overflow.limit // 4)
    if left < MIN_OUTPUT:
        return False
    engine.cap_output(left)
    return True


def capped(engine: Engine) -> dict[str, Any]:
    """The call's settings: the output cap, where a refusal has lowered it."""
    if engine.output_cap is None:
        return {}
    return {cap_name(engine.model): engine.output_cap}


def is_malformed(answer: AIMessage) -> bool:
    """Whether an answer holds nothing but tool calls that cannot be read: a fault, not an end."""
    return bool(answer.invalid_tool_calls) and not answer.tool_calls and not text_of(answer).strip()


def with_note(request: list[BaseMessage], answer: AIMessage) -> list[BaseMessage]:
    """The request with a word on what was wrong; it is not kept."""
    reasons = [str(call.get("error") or "").strip() for call in answer.invalid_tool_calls]
    why = next((f" {reason[:200]}" for reason in reasons if reason), "")
    return [*request, AIMessage("(a tool call)"), HumanMessage(_NOTE + why)]


def said_malformed(answer: AIMessage, language: str) -> AIMessage:
    """An answer that says what happened, in place of the calls."""
    names = ", ".join(sorted({str(call.get("name") or "?") for call in answer.invalid_tool_calls}))
    return AIMessage(
        _SAID.get(language, _SAID["en"]).format(names=names),
        id=answer.id,
        usage_metadata=answer.usage_metadata,
        response_metadata={**answer.response_metadata, "headwater": "malformed"},
    )
