"""What compatible servers refuse beyond OpenAI: Mistral, DeepSeek, and Mistral's template under vLLM."""

import re

from headwater.lab.rules import Ask, Rule, blocks_of
from headwater.lab.rules_openai import OPENAI_RULES

_NINE = re.compile(r"[a-zA-Z0-9]{9}")
_REASONING = ("reasoning_content", "reasoning")
MISTRAL_IMAGES = 8


def _no_user_after_tool(ask: Ask) -> str | None:
    last = ""
    for message in ask.messages:
        if last == "tool" and message["role"] not in ("assistant", "tool"):
            return f"Unexpected role '{message['role']}' after role 'tool'"
        last = message["role"]
    return None


def _roles_alternate(ask: Ask) -> str | None:
    """Counted as the templates count: tool results and the calls they answer stand outside."""
    expected = "user"
    for message in ask.messages:
        role = message["role"]
        if role not in ("user", "assistant") or message.get("tool_calls"):
            continue
        if role != expected:
            return (
                "After the optional system message, conversation roles must alternate user/assistant/user/"
                f"assistant/... (expected '{expected}', got '{role}')"
            )
        expected = "assistant" if role == "user" else "user"
    return None


def _nine_letters(ask: Ask) -> str | None:
    for message in ask.messages:
        ids = [call.get("id") for call in message.get("tool_calls") or []]
        ids += [message["tool_call_id"]] if message["role"] == "tool" else []
        for call_id in ids:
            if not _NINE.fullmatch(str(call_id)):
                return f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9."
    return None


def _no_reasoning(ask: Ask) -> str | None:
    for i, message in enumerate(ask.messages):
        for key in _REASONING:
            if message.get(key):
                return f"body.messages.{i}.{key}: Extra inputs are not permitted"
        if any(block.get("type") in ("thinking", "reasoning") for block in blocks_of(message.get("content"))):
            return f"body.messages.{i}.content: Input tag 'thinking' is not expected here"
    return None


def _few_images(ask: Ask) -> str | None:
    count = sum(b.get("type") == "image_url" for m in ask.messages for b in blocks_of(m.get("content")))
    if count > MISTRAL_IMAGES:
        return f"Too many images in request: {count}. The maximum is {MISTRAL_IMAGES}."
    return None


def _tool_text(ask: Ask) -> str | None:
    for i, message in enumerate(ask.messages):
        content = message.get("content")
        if message["role"] == "tool" and any(b.get("type") != "text" for b in blocks_of(content)):
            return f"messages[{i}]: content of a tool message must be text"
    return None


def _tool_reasoning_kept(ask: Ask) -> str | None:
    """Where an answer with calls had reasoning when it was made, it has it when it comes back."""
    for message in ask.messages:
        for call in message.get("tool_calls") or []:
            made_with = ask.issued.get(str(call.get("id")))
            if made_with and "" not in made_with and not message.get("reasoning_content"):
                return "The `reasoning_content` in the thinking mode must be passed back to the API."
    return None


MISTRAL_RULES: tuple[Rule, ...] = (
    *OPENAI_RULES,
    Rule(
        "user_not_after_tool",
        "mistral-common validator; NousResearch/hermes-agent#20154",
        _no_user_after_tool,
    ),
    Rule("ids_of_nine", "mistral-common validator; langchain-ai/langchain#24668", _nine_letters),
    Rule("reasoning_absent", "Mistral reference, chat completions: extra inputs", _no_reasoning),
    Rule("images_few", "Mistral docs, vision; earendil-works/pi#120", _few_images),
)
VLLM_RULES: tuple[Rule, ...] = (
    *OPENAI_RULES,
    Rule("roles_alternate", "Mistral's chat template; vllm-project/vllm#6862", _roles_alternate),
    Rule("user_not_after_tool", "Mistral's chat template; charmbracelet/crush#279", _no_user_after_tool),
    Rule("ids_of_nine", "Mistral's chat template", _nine_letters),
    Rule("reasoning_absent", "Mistral's chat template reads content only", _no_reasoning),
)
DEEPSEEK_RULES: tuple[Rule, ...] = (
    *OPENAI_RULES,
    Rule("tool_text", "DeepSeek reference, tool message", _tool_text),
    Rule(
        "reasoning_kept",
        "DeepSeek docs, thinking mode with tool calls; rikkahub/rikkahub#1587",
        _tool_reasoning_kept,
    ),
)
