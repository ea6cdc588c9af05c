"""What Anthropic's messages API refuses."""

import re
from collections.abc import Iterator

from headwater.lab.rules import NAME_PATTERN, Ask, Part, Rule, blocks_of, well_formed
from headwater.lab.rules_thinking import latest_thinking_kept, signatures_verify

_NAME = re.compile(NAME_PATTERN)


def _anthropic_shape(ask: Ask) -> str | None:
    messages = ask.body.get("messages")
    if not well_formed(messages):
        return "messages: Input should be a valid list"
    if not messages:
        return "messages: at least one message is required"
    cap = ask.body.get("max_tokens")
    if not isinstance(cap, int):
        return "max_tokens: Field required"
    return None if cap >= 1 else "max_tokens: Input should be greater than or equal to 1"


def _anthropic_roles(ask: Ask) -> str | None:
    for i, message in enumerate(ask.messages):
        if message["role"] == "system":
            return (
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
                'parameter, not "system" as an input message role.'
            )
        if message["role"] not in ("user", "assistant"):
            return f"messages.{i}.role: Input should be 'user' or 'assistant'"
    return None


def _anthropic_first_is_user(ask: Ask) -> str | None:
    return None if ask.messages[0]["role"] == "user" else 'messages: first message must use the "user" role'


def _anthropic_content(ask: Ask) -> str | None:
    last = len(ask.messages) - 1
    for i, message in enumerate(ask.messages):
        final = i == last and message["role"] == "assistant"
        if not message.get("content") and not final:
            return (
                f"messages.{i}: all messages must have non-empty content except for the optional final "
                "assistant message"
            )
        for block in blocks_of(message.get("content")):
            inner = blocks_of(block.get("content")) if isinstance(block.get("content"), list) else []
            for text in (b.get("text") for b in (block, *inner) if b.get("type") == "text"):
                if not text:
                    return "messages: text content blocks must be non-empty"
                if not str(text).strip():
                    return "messages: text content blocks must contain non-whitespace text"
    if any(not block.get("text") for block in blocks_of(ask.body.get("system"))):
        return "system: text content blocks must be non-empty"
    return None


def _anthropic_trailing_space(ask: Ask) -> str | None:
    final = ask.messages[-1]
    blocks = blocks_of(final.get("content"))
    if final["role"] != "assistant" or not blocks or blocks[-1].get("type") != "text":
        return None
    text = str(blocks[-1]["text"])
    return (
        None
        if text == text.rstrip()
        else "messages: final assistant content cannot end with trailing whitespace"
    )


def _of(ask: Ask, kind: str) -> Iterator[Part]:
    return (part for merged in ask.merged for part in merged.parts if part.block.get("type") == kind)


def _anthropic_ids(ask: Ask) -> str | None:
    seen: set[str] = set()
    for path, block in _of(ask, "tool_use"):
        call_id = str(block.get("id", ""))
        if not _NAME.match(call_id):
            return f"{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if call_id in seen:
            return f"{path}: `tool_use` ids must be unique"
        seen.add(call_id)
        if not isinstance(block.get("input"), dict):
            return f"{path}.tool_use.input: Input should be a valid dictionary"
    return None


def _anthropic_results(ask: Ask) -> str | None:
    """A tool_result answers a tool_use of the message before, once."""
    calls: set[str] = set()
    for merged in ask.merged:
        seen: set[str] = set()
        for path, block in merged.parts:
            if block.get("type") != "tool_result":
                continue
            call_id = str(block.get("tool_use_id"))
            if call_id not in calls:
                return (
                    f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
            if call_id in seen:
                return (
                    f"{path}: each tool_use must have a single result. Found multiple `tool_result` blocks "
                    f"with id: {call_id}"
                )
            seen.add(call_id)
        calls = {str(p.block.get("id")) for p in merged.parts if p.block.get("type") == "tool_use"}
    return None


def _anthropic_answered(ask: Ask) -> str | None:
    """Every tool_use has its tool_result at the start of the next user message."""
    for i, merged in enumerate(ask.merged):
        calls = [str(p.block.get("id")) for p in merged.parts if p.block.get("type") == "tool_use"]
        leading: set[str] = set()
        for part in ask.merged[i + 1].parts if i + 1 < len(ask.merged) else []:
            if part.block.get("type") != "tool_result":
                break
            leading.add(str(part.block.get("tool_use_id")))
        missing = [call_id for call_id in calls if call_id not in leading]
        if missing:
            return (
                f"{merged.path}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block "
                "in the next message."
            )
    return None


def _anthropic_tools(ask: Ask) -> str | None:
    names = [str(tool.get("name", "")) for tool in ask.body.get("tools") or []]
    for i, name in enumerate(names):
        if not _NAME.match(name):
            return f"tools.{i}.name: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if len(set(names)) < len(names):
        return "tools: Tool names must be unique."
    choice = ask.body.get("tool_choice") or {}
    if choice.get("type") in ("any", "tool") and not names:
        return "tool_choice: may only be specified while providing `tools`."
    if choice.get("type") == "tool" and choice.get("name") not in names:
        return f"Tool '{choice.get('name')}' not found in provided tools"
    return None


_ANTHROPIC_DOCS = "Anthropic messages reference"

ANTHROPIC_RULES: tuple[Rule, ...] = (
    Rule("messages_shape", _ANTHROPIC_DOCS, _anthropic_shape),
    Rule("roles_known", f"{_ANTHROPIC_DOCS}, system and role", _anthropic_roles),
    Rule("first_is_user", _ANTHROPIC_DOCS, _anthropic_first_is_user),
    Rule("content_not_empty", _ANTHROPIC_DOCS, _anthropic_content),
    Rule("no_trailing_space", f"{_ANTHROPIC_DOCS}, prefill", _anthropic_trailing_space),
    Rule("call_ids_unique", "Anthropic tool use guide", _anthropic_ids),
    Rule("results_paired", "Anthropic tool use guide", _anthropic_results),
    Rule("calls_answered", "Anthropic tool use guide", _anthropic_answered),
    Rule("tools_exist", f"{_ANTHROPIC_DOCS}, tools and tool_choice", _anthropic_tools),
    Rule("thinking_signed", "Anthropic extended thinking; anthropics/claude-code#63259", signatures_verify),
    Rule("thinking_kept_in_round", "Anthropic extended thinking, tool use", latest_thinking_kept),
)
