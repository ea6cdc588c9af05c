"""What OpenAI-compatible chat completions refuse, Qwen's and vLLM's templates included."""

import json
import re
from typing import Any

from headwater.lab.rules import NAME_PATTERN, Ask, Rule, blocks_of, well_formed

_NAME = re.compile(NAME_PATTERN)


def _shape(ask: Ask) -> str | None:
    messages = ask.body.get("messages")
    if not well_formed(messages):
        return "Invalid type for 'messages': expected an array of objects with a role."
    if not messages:
        return "Invalid 'messages': empty array. Expected an array with minimum length 1, but got length 0."
    return None


_OPENAI_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_SYSTEM = ("system", "developer")


def _openai_roles(ask: Ask) -> str | None:
    for i, message in enumerate(ask.messages):
        if message["role"] not in _OPENAI_ROLES:
            return (
                f"Invalid value: '{message['role']}'. Supported values are: 'system', 'assistant', 'user', "
                f"'function', 'tool', and 'developer'. (messages[{i}].role)"
            )
    return None


def _openai_one_system(ask: Ask) -> str | None:
    if ask.strict.one_system and any(m["role"] in _SYSTEM for m in ask.messages[1:]):
        return "System message must be at the beginning."
    return None


def _openai_first_is_user(ask: Ask) -> str | None:
    first = next((m["role"] for m in ask.messages if m["role"] not in _SYSTEM), None)
    if first is None:
        return "No user query found in messages."
    # An opening tool row is named by the pairing rule, whose text says more.
    if first not in ("user", "tool"):
        return f"Conversation roles must alternate user/assistant/user/assistant/... (first is '{first}')"
    return None


def _is_blank(content: Any) -> bool:
    if not content:
        return True
    if isinstance(content, str):
        return False
    return any(b.get("type") == "text" and not b.get("text") for b in blocks_of(content))


def _openai_content(ask: Ask) -> str | None:
    for i, message in enumerate(ask.messages):
        content = message.get("content")
        if message["role"] == "assistant":
            if not message.get("tool_calls") and _is_blank(content):
                got = "null" if content is None else "an empty string"
                return f"Invalid value for 'content': expected a string, got {got}. (messages.[{i}].content)"
        elif content is None:
            return f"Invalid value for 'content': expected a string, got null. (messages.[{i}].content)"
        elif _is_blank(content):
            return (
                f"Invalid 'messages[{i}].content': string too short. Expected a string with minimum length "
                "1, but got an empty string instead."
            )
    return None


def _openai_images(ask: Ask) -> str | None:
    for i, message in enumerate(ask.messages):
        content = message.get("content")
        if message["role"] == "user" or not isinstance(content, list):
            continue
        if any(block.get("type") == "image_url" for block in blocks_of(content)):
            return (
                f"Invalid 'messages[{i}]'. Image URLs are only allowed for messages with role 'user', but "
                f"this message with role '{message['role']}' contains an image URL."
            )
    return None


def _openai_call_ids(ask: Ask) -> str | None:
    limit = ask.strict.call_id_limit
    for i, message in enumerate(ask.messages):
        ids = [str(call.get("id", "")) for call in message.get("tool_calls") or []]
        for j, call_id in enumerate(ids):
            if not call_id or call_id in ids[:j]:
                return f"Duplicate call_ids submitted: {ids!r} (messages.[{i}].tool_calls)"
            if limit is not None and len(call_id) > limit:
                return (
                    f"Invalid 'messages[{i}].tool_calls[{j}].id': string too long. Expected a string with "
                    f"maximum length {limit}, but got a string with length {len(call_id)} instead."
                )
    return None


def _openai_arguments(ask: Ask) -> str | None:
    for message in ask.messages:
        for call in message.get("tool_calls") or []:
            try:
                json.loads(call["function"]["arguments"] if call["function"]["name"] else "")
            except (KeyError, TypeError, ValueError) as error:
                return f"Failed to parse tool call arguments as JSON: {error}"
    return None


def _openai_results(ask: Ask) -> str | None:
    """Every tool message answers one call of the assistant message right before its run, and only once."""
    calls: dict[str, int | None] = {}
    for i, message in enumerate(ask.messages):
        if message["role"] != "tool":
            calls = {str(call.get("id")): None for call in message.get("tool_calls") or []}
            continue
        call_id = str(message.get("tool_call_id"))
        if not calls:
            return (
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                f"with 'tool_calls'. (messages.[{i}].role)"
            )
        if call_id not in calls:
            text = f"'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message."
            return f"Invalid parameter: {text}"
        if calls[call_id] is not None:
            return (
                f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', in "
                f"messages[{calls[call_id]}] and messages[{i}]."
            )
        calls[call_id] = i
    return None


def _openai_answered(ask: Ask) -> str | None:
    waiting: list[str] = []
    for i, message in enumerate([*ask.messages, {"role": "end"}]):
        if message["role"] == "tool":
            waiting = [call_id for call_id in waiting if call_id != message.get("tool_call_id")]
            continue
        if waiting:
            return (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                "'tool_call_id'. The following tool_call_ids did not have response messages: "
                f"{', '.join(waiting)} (messages.[{i}].role)"
            )
        waiting = [str(call.get("id")) for call in message.get("tool_calls") or []]
    return None


def _openai_tools(ask: Ask) -> str | None:
    tools, choice = ask.body.get("tools"), ask.body.get("tool_choice")
    if tools is not None and not tools:
        return "Invalid 'tools': empty array. Expected an array with minimum length 1, but got length 0."
    names = [str(tool.get("function", {}).get("name", "")) for tool in tools or []]
    for i, name in enumerate(names):
        if not _NAME.match(name):
            return (
                f"Invalid 'tools[{i}].function.name': string does not match pattern. Expected a string that "
                "matches the pattern '^[a-zA-Z0-9_-]+$'."
            )
    if choice is not None and choice != "none" and not names:
        return "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
    if isinstance(choice, dict) and (wanted := choice.get("function", {}).get("name")) not in names:
        return f"Tool choice '{wanted}' not found in 'tools' parameter."
    return None


OPENAI_RULES: tuple[Rule, ...] = (
    Rule("messages_shape", "OpenAI chat completions reference, messages", _shape),
    Rule("roles_known", "OpenAI chat completions reference, role", _openai_roles),
    Rule("one_system_first", "Qwen 3.5 template; vllm-project/vllm#41114", _openai_one_system),
    Rule("first_is_user", "Qwen 3.5 template; vllm-project/vllm#36432", _openai_first_is_user),
    Rule("content_not_empty", "OpenAI chat completions reference, content", _openai_content),
    Rule("images_from_user", "OpenAI chat completions reference, image_url", _openai_images),
    Rule("call_ids_unique", "alvesvaren/zod-to-openai-tool#263; can1357/oh-my-pi#2055", _openai_call_ids),
    Rule("results_paired", "agno-agi/agno#5116; anomalyco/opencode#1211", _openai_results),
    Rule("calls_answered", "OpenAI function calling guide", _openai_answered),
    Rule("arguments_are_json", "llama.cpp chat templates", _openai_arguments),
    Rule("tools_exist", "OpenAI chat completions reference, tools and tool_choice", _openai_tools),
)
