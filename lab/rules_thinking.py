"""Signed thinking: made by this server, verified when it comes back, kept within its tool round."""

import base64
import hashlib
import hmac

from headwater.lab.prefix_cache import canonical
from headwater.lab.rules import Ask, blocks_of

# Not a secret: a fixed key lets a session go on at a server started later.
_KEY = b"headwater strict provider"
_MARK = "strict-"


def sign(thinking: str, before: bytes = b"") -> str:
    """This server's signature of a thinking text, bound to the digest of what precedes it if one is given."""
    code = hmac.new(_KEY, before + thinking.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
    return _MARK + base64.b64encode(code).decode()


def sign_reply(ask: Ask, thinking: str) -> str:
    """The signature for a thinking block of the reply to this request."""
    return sign(thinking, _digest(ask)) if ask.strict.bound_thinking else sign(thinking)


def _digest(ask: Ask) -> bytes:
    running = _opening(ask)
    for merged in ask.merged:
        for part in merged.parts:
            running.update(merged.role.encode() + canonical(part.block))
    return running.digest()


def _opening(ask: Ask) -> "hashlib.blake2b":
    tools = [canonical(tool) for tool in ask.body.get("tools") or []]
    system = [canonical(block) for block in blocks_of(ask.body.get("system"))]
    return hashlib.blake2b(b"\0".join([*tools, b"system", *system]), digest_size=16)


def signatures_verify(ask: Ask) -> str | None:
    """Every thinking block is as its signature says, and stands after the bytes it is bound to."""
    if not ask.strict.signed_thinking:
        return None
    running = _opening(ask) if ask.strict.bound_thinking else None
    last = len(ask.merged) - 1
    for i, merged in enumerate(ask.merged):
        for path, block in merged.parts:
            if block.get("type") == "thinking":
                before = running.digest() if running else b""
                signature = str(block.get("signature") or "")
                foreign = ask.strict.foreign_thinking and not signature.startswith(_MARK)
                if not foreign and signature != sign(str(block.get("thinking", "")), before):
                    return _bad_thinking(path, latest=i >= last - 1)
            if running:
                running.update(merged.role.encode() + canonical(block))
    return None


def _bad_thinking(path: str, *, latest: bool) -> str:
    if latest:
        return (
            f"{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
            "modified. These blocks must remain as they were in the original response."
        )
    return f"{path}: Invalid `signature` in `thinking` block"


def latest_thinking_kept(ask: Ask) -> str | None:
    """The tool round that is being answered still carries the thinking it was issued with."""
    if not ask.strict.signed_thinking or len(ask.merged) < 2 or ask.merged[-1].role != "user":
        return None
    round_ = ask.merged[-2]
    kept = {str(p.block.get("signature")) for p in round_.parts if p.block.get("type") == "thinking"}
    for _path, block in round_.parts:
        issued = ask.issued.get(str(block.get("id"))) if block.get("type") == "tool_use" else None
        if issued and "" not in issued and not issued & kept:
            return (
                f"{round_.path}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                "`tool_use`. When `thinking` is enabled, a final `assistant` message must start with a "
                "thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
            )
    return None
