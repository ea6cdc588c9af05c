"""A stretch of the log as a summariser reads it: one line a message, tool output condensed."""

import json
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from headwater.window.clean import condense
from headwater.window.face import safe, text_of
from headwater.window.tokens import count_text

RESULT_TOKENS = 300
SAID_TOKENS = 1_500
_ARGS_CHARS = 240


def transcript(messages: Sequence[tuple[int, BaseMessage]]) -> str:
    """Lines `[N] U:` (user), `A:` (assistant), `TC:` (tool call), `TR:` (tool result), in order."""
    lines: list[str] = []
    for tag, message in messages:
        text = safe(text_of(message)).strip()
        if isinstance(message, ToolMessage):
            lines.append(
                f"[{tag}] TR {message.name or 'tool'}: {condense(text, RESULT_TOKENS) if text else '(empty)'}"
            )
        elif isinstance(message, AIMessage):
            if text:
                lines.append(f"[{tag}] A: {_said(text)}")
            lines += [
                f"[{tag}] TC: {call['name']}({_arguments(call['args'])})" for call in message.tool_calls
            ]
        else:
            role = "U" if isinstance(message, HumanMessage) else "S"
            lines.append(f"[{tag}] {role}: {_said(text)}")
    return "\n".join(lines)


def _said(text: str) -> str:
    return text if count_text(text) <= SAID_TOKENS else condense(text, SAID_TOKENS)


def _arguments(args: dict[str, object]) -> str:
    text = safe(json.dumps(args, ensure_ascii=False, default=str))
    return text if len(text) <= _ARGS_CHARS else text[:_ARGS_CHARS] + "…"
