"""What Gemini's `generateContent` refuses: turns, roles, empty parts, calls without their responses."""

from typing import Any

from headwater.lab.rules import Ask, Rule
from headwater.lab.rules_gemini_thoughts import calls_signed, signatures_hold

_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)


def field_of(value: dict[str, Any], name: str) -> Any:
    """A field by its JSON name or by its name in the protocol: the API reads `functionCall` and
    `function_call` alike."""
    if name in value:
        return value[name]
    return value.get("".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name))


def contents_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns."""
    return body.get("contents") or []


def parts_of(content: dict[str, Any] | None, name: str | None = None) -> list[dict[str, Any]]:
    """The parts of a turn, or with `name` what its parts of that kind hold."""
    parts: list[dict[str, Any]] = (content or {}).get("parts") or []
    if name is None:
        return parts
    return [found for part in parts if (found := field_of(part, name)) is not None]


def _contents_given(ask: Ask) -> str | None:
    contents = ask.body.get("contents")
    if not contents:
        return "* GenerateContentRequest.contents: contents is not specified\n"
    if not isinstance(contents, list) or not all(map(_well_formed, contents)):
        return f"Invalid JSON payload received. Invalid value at 'contents': {contents!r:.80}"
    instruction = field_of(ask.body, "systemInstruction")
    if instruction is not None and not _well_formed(instruction):
        return f"Invalid JSON payload received. Invalid value at 'system_instruction': {instruction!r:.80}"
    return None


def _well_formed(content: Any) -> bool:
    if not isinstance(content, dict) or not isinstance(content.get("parts", []), list):
        return False
    return all(isinstance(part, dict) for part in parts_of(content))


def _system_apart(ask: Ask) -> str | None:
    if any(content.get("role") == "system" for content in contents_of(ask.body)):
        return "Content with system role is not supported."
    return None


def _roles_known(ask: Ask) -> str | None:
    if any(content.get("role") not in ("user", "model") for content in contents_of(ask.body)):
        return "Please use a valid role: user, model."
    return None


def _user_opens(ask: Ask) -> str | None:
    opening = contents_of(ask.body)[0]
    if opening["role"] == "user":
        return None
    if parts_of(opening, "functionCall"):
        return _CALL_PLACE
    return "Please ensure that multiturn requests start with a user turn."


def _parts_filled(ask: Ask) -> str | None:
    instruction = field_of(ask.body, "systemInstruction")
    named = [(f"contents[{i}]", content) for i, content in enumerate(contents_of(ask.body))]
    for path, content in [
        *named,
        *([("system_instruction", instruction)] if instruction is not None else []),
    ]:
        where = f"* GenerateContentRequest.{path}.parts"
        if not parts_of(content):
            return f"{where}: contents.parts must not be empty.\n"
        for j, part in enumerate(parts_of(content)):
            # A signature may come back in a part of its own.
            if not any(_filled(field_of(part, name)) for name in (*_DATA, "thoughtSignature")):
                return f"{where}[{j}].data: required oneof field 'data' must have one initialized field\n"
    return None


def _filled(data: Any) -> bool:
    return data is not None and data != ""


def _calls_follow_user(ask: Ask) -> str | None:
    last = ""
    for content in contents_of(ask.body):
        if parts_of(content, "functionCall") and last != "user":
            return _CALL_PLACE
        last = content["role"]
    return None


def _calls_answered(ask: Ask) -> str | None:
    contents = contents_of(ask.body)
    for i, content in enumerate(contents):
        calls = len(parts_of(content, "functionCall"))
        answers = len(parts_of(contents[i + 1], "functionResponse")) if i + 1 < len(contents) else 0
        if calls and calls != answers:
            return (
                "Please ensure that the number of function response parts is equal to the number of function "
                "call parts of the function call turn."
            )
    return None


def _responses_follow_calls(ask: Ask) -> str | None:
    called = False
    for content in contents_of(ask.body):
        if parts_of(content, "functionResponse") and not called:
            return "Please ensure that function response turn comes immediately after a function call turn."
        called = bool(parts_of(content, "functionCall"))
    return None


def _responses_named(ask: Ask) -> str | None:
    for i, content in enumerate(contents_of(ask.body)):
        for j, part in enumerate(parts_of(content)):
            response = field_of(part, "functionResponse")
            if response is not None and not response.get("name"):
                where = f"contents[{i}].parts[{j}].function_response.name"
                return f"* GenerateContentRequest.{where}: Name cannot be empty.\n"
    return None


_CALL_PLACE = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response "
    "turn."
)
_REFERENCE = "Gemini API reference, generateContent"
_SIGNATURES = "Gemini docs, thought signatures"

GEMINI_RULES: tuple[Rule, ...] = (
    Rule("contents_given", f"{_REFERENCE}; langgenius/dify-official-plugins#2775", _contents_given),
    Rule("system_apart", f"{_REFERENCE}: systemInstruction; lbjlaq/Antigravity-Manager#60", _system_apart),
    Rule("roles_known", f"{_REFERENCE}: Content.role is 'user' or 'model'", _roles_known),
    Rule("user_opens", "google-gemini/gemini-cli#11814; langgenius/dify-official-plugins#3451", _user_opens),
    Rule("parts_filled", "boldsoftware/sketch#68; livekit/agents#1397", _parts_filled),
    Rule(
        "calls_follow_user", "google-gemini/gemini-cli#26486; continuedev/continue#11164", _calls_follow_user
    ),
    Rule("calls_answered", "google-gemini/gemini-cli#4217, #16984", _calls_answered),
    Rule("responses_follow_calls", "langchain-ai/langchain#27799", _responses_follow_calls),
    Rule("responses_named", f"{_REFERENCE}: FunctionResponse.name is required", _responses_named),
    Rule("calls_signed", f"{_SIGNATURES}; langchain-ai/langchain-google#1364", calls_signed),
    Rule(
        "signatures_hold", f"{_SIGNATURES}; docs.apiyi.com, gemini-thought-signature-missing", signatures_hold
    ),
)
