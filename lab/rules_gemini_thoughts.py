"""Gemini 3's thought signatures: made here, asked for within the turn, verified when they come back.

A reply's first call carries one, and so does the end of a reply without calls. Each step of the current turn
must send its first call with a signature; a client that has none says so by an agreed word. A signature that
comes back must be this server's own, stand on a call of the name it was made for, and stand there only.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from headwater.lab.rules import Ask

# Not a secret: a fixed key lets a session go on at a server started later.
_KEY = b"headwater strict provider"
_MARK = b"strict-gemini:"
_MAJOR = re.compile(r"gemini-(\d+)")
UNSIGNED = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""What stands for no signature: history of another model, or calls that no model made."""


class Signed(NamedTuple):
    """A part with its place, the name of its call ("" for other parts) and its signature, if any."""

    path: str
    name: str
    signature: str


def signs(model: str) -> bool:
    """Whether a model signs its calls and asks for the signatures: Gemini 3 and later."""
    return any(int(major) >= 3 for major in _MAJOR.findall(model))


def sign_call(number: int, name: str) -> str:
    """The signature of the first call of reply `number`, or of its text where `name` is empty."""
    about = _MARK + f"{number}:{name}:".encode()
    return base64.b64encode(about + _digest(about)).decode()


def calls_signed(ask: Ask) -> str | None:
    """In the turn that is being answered, the first call of each step carries a signature."""
    if not signs(ask.model):
        return None
    contents = ask.body["contents"]
    for i in range(_turn_begins(contents), len(contents)):
        first = next((part for part in _parts(contents, i) if part.name), None)
        if first is not None and not first.signature:
            return (
                "Function call is missing a thought_signature in functionCall parts. This is required for "
                "tools to work correctly, and missing thought_signature may lead to degraded model "
                f"performance. Additional data, function call `default_api:{first.name}` , position {i + 1}."
            )
    return None


def signatures_hold(ask: Ask) -> str | None:
    """Every signature is one that was given, where it was given."""
    if not signs(ask.model):
        return None
    seen: set[str] = set()
    contents = ask.body["contents"]
    for part in (part for i in range(len(contents)) for part in _parts(contents, i)):
        if not part.signature or part.signature in UNSIGNED:
            continue
        name = _made_for(part.signature)
        if name is None and ask.strict.foreign_thinking:
            continue
        if name != part.name or part.signature in seen:
            return f"Corrupted thought signature. ({part.path})"
        seen.add(part.signature)
    return None


def _made_for(signature: str) -> str | None:
    """The name of the call that this server made a signature for, or None where it made none such."""
    try:
        # The protocol's JSON takes both alphabets.
        raw = base64.b64decode(signature.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None
    about, code = raw[:-32], raw[-32:]
    if not about.startswith(_MARK) or not hmac.compare_digest(code, _digest(about)):
        return None
    return about[len(_MARK) : -1].partition(b":")[2].decode()


def _digest(about: bytes) -> bytes:
    return hmac.new(_KEY, about, hashlib.sha256).digest()


def _turn_begins(contents: list[dict[str, Any]]) -> int:
    """The place of the newest turn of the user's own: one that holds something else than what tools said."""
    for i in range(len(contents) - 1, -1, -1):
        parts = contents[i].get("parts") or []
        if contents[i].get("role") == "user" and not any(_is(part, "functionResponse") for part in parts):
            return i
    return 0


def _parts(contents: list[dict[str, Any]], i: int) -> Iterator[Signed]:
    if contents[i].get("role") != "model":
        return
    for j, part in enumerate(contents[i].get("parts") or []):
        call = part.get("functionCall") or part.get("function_call") or {}
        signature = part.get("thoughtSignature") or part.get("thought_signature") or ""
        yield Signed(f"contents[{i}].parts[{j}]", str(call.get("name") or ""), str(signature))


def _is(part: dict[str, Any], name: str) -> bool:
    return name in part or re.sub(r"([A-Z])", lambda m: f"_{m[1].lower()}", name) in part
