"""What stands in the window for text that left it: pure functions of tag and content (M9, G35)."""

import hashlib
import re
from typing import Any

from headwater.window.tokens import count_text

MAX_STUB_BYTES = 2_048
_SIGN = "⟦stored"
_STUB = re.compile(r"⟦stored [^⟧\n]{1,300}⟧")
_NAMED = re.compile(r"⟦stored (artifacts/[^\s⟧]+) ")
_LINE = 160


def artifact_name(data: bytes, suffix: str = ".txt") -> str:
    """The name of an artifact, from its content alone: neither time nor chance enters it."""
    digest = hashlib.sha256(data).hexdigest()
    return f"artifacts/{digest[:2]}/{digest[:32]}{suffix}"


def encode(text: str) -> bytes:
    """UTF-8 that also carries lone surrogates, so that every Python string comes back as it was."""
    return text.encode("utf-8", "surrogatepass")


def stub(tag: int, text: str, *, preview_tokens: int = 0) -> str:
    """The stub of a tool result: where it lies, how large it is, how to read it, and its edges (M9).

    Args:
        tag: The message's tag.
        text: The whole result.
        preview_tokens: Tokens of the head to show; 0 shows the first and the last line only.

    Returns:
        At most 2 KB of UTF-8, without lone surrogates.
    """
    name = artifact_name(encode(text))
    lines = text.count("\n") + 1
    back = f'read it back: file_read("{name}") or ctx_expand("{tag}")'
    head = f"{_SIGN} {name} {_size(text)}, {lines:,} lines; {back}⟧"
    if preview_tokens:
        return _fit(f"{head}\n{_head(text, preview_tokens)}\n…")
    first, last = _edge(text.lstrip().partition("\n")[0]), _edge(text.rstrip().rpartition("\n")[2])
    return _fit("\n".join([head, first] if last == first else [head, first, "…", last]))


def argument_stub(tag: int, text: str) -> str:
    """What stands for a long argument of an old tool call; its form cannot be taken for a value."""
    return f'{_SIGN} argument, {_size(text)}; read it back: ctx_expand("{tag}")⟧'


def dropped(tag: int) -> str:
    """What stands for a result that was dropped; a function of its tag alone (G31, G35)."""
    return f'⟦stored §{tag}§ dropped; read it back: ctx_expand("{tag}")⟧'


def is_stub(text: str) -> bool:
    """Whether a text is, or holds, something that stands for stored text."""
    return _SIGN in text and _STUB.search(text) is not None


def is_only_stub(text: str) -> bool:
    """Whether a text is a stub itself, and not a longer text that quotes one."""
    return text.startswith(_SIGN) and len(text) <= MAX_STUB_BYTES and is_stub(text)


def stored_as(text: str) -> str:
    """The artifact that a stub names; "" for any other text, and for a stub that names none."""
    found = _NAMED.match(text) if is_only_stub(text) else None
    return found[1] if found else ""


def stub_arguments(tag: int, args: Any, smallest: int = 40) -> Any:
    """Tool-call arguments with every long string replaced by its stub; structure and short values stay."""
    if isinstance(args, str):
        long = len(args) > smallest and not is_stub(args) and count_text(args) > smallest
        return argument_stub(tag, args) if long else args
    if isinstance(args, dict):
        return {key: stub_arguments(tag, value, smallest) for key, value in args.items()}
    if isinstance(args, list):
        return [stub_arguments(tag, value, smallest) for value in args]
    return args


def holds_stub(args: Any) -> bool:
    """Whether any string in a tool call's arguments is a stub (a model that copied one; GH#374)."""
    if isinstance(args, str):
        return is_stub(args)
    if isinstance(args, dict):
        return any(holds_stub(value) for value in args.values())
    return isinstance(args, list) and any(holds_stub(value) for value in args)


def _size(text: str) -> str:
    return f"{len(text):,} chars"


def _edge(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LINE // 2 else line[: _LINE // 2] + "…"


def _head(text: str, tokens: int) -> str:
    """The first lines of a text, at most `tokens` tokens of them."""
    taken: list[str] = []
    left = tokens
    for line in text[: tokens * 8].splitlines():
        line = line if len(line) <= _LINE * 2 else line[: _LINE * 2] + "…"
        left -= count_text(line) + 1
        if left < 0:
            break
        taken.append(line)
    return "\n".join(taken) or text[: min(len(text), tokens)]


def _fit(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_STUB_BYTES:
        return data.decode("utf-8")
    return data[: MAX_STUB_BYTES - 3].decode("utf-8", "ignore") + "…"
