"""Messages as bytes and back, exactly: every type, content list, malformed call, NUL and lone surrogate.

JSON is written without escapes and encoded as UTF-8 with `surrogatepass`. Escaped JSON would not do: two
surrogates in a row, as a broken stream delivers them, come back from it as one character.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from headwater.memory.database import StoreTooNew

_BYTES = "headwater:bytes"
# The first byte of every stored value says how the rest is written: it is the version of a row.
_PLAIN, _WITH_BYTES = b"\x00", b"\x01"
_SEEN_BY_MODEL = (
    "type",
    "id",
    "name",
    "role",
    "tool_calls",
    "invalid_tool_calls",
    "tool_call_id",
    "status",
)


class Record(NamedTuple):
    """A message ready to be stored."""

    key: bytes
    """16 bytes that tell messages apart: id, content and whatever else a model is shown of them."""
    body: bytes
    """The message without its content."""
    content: bytes


def encode(value: Any) -> bytes:
    """A JSON value as bytes. `bytes` inside survive; what JSON cannot hold is kept as its `repr`."""
    held: list[bool] = []

    def default(item: Any) -> Any:
        if isinstance(item, bytes | bytearray):
            held.append(True)
            return {_BYTES: base64.b64encode(item).decode("ascii")}
        return repr(item)

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=default)
    return (_WITH_BYTES if held else _PLAIN) + text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> Any:
    """The value that `encode` was given.

    Raises:
        StoreTooNew: It is written in a form that this program does not know.
    """
    if data[:1] not in (_PLAIN, _WITH_BYTES):
        raise StoreTooNew(f"a stored row has the form {data[:1]!r}, unknown here: upgrade headwater")
    text = data[1:].decode("utf-8", "surrogatepass")
    return json.loads(text, object_hook=_revive if data[:1] == _WITH_BYTES else None)


def record(message: BaseMessage) -> Record:
    """The stored form of a message.

    Usage, response metadata and keys of ours (`headwater…` in `additional_kwargs`) are stored but are no
    part of the key: a message annotated after it was archived is still the same message.
    """
    form = message_to_dict(message)
    data = form["data"]
    content = encode(data.pop("content"))
    extra = data.get("additional_kwargs") or {}
    extra = {name: value for name, value in extra.items() if not str(name).startswith("headwater")}
    seen = {**{name: data.get(name) for name in _SEEN_BY_MODEL}, "additional_kwargs": extra}
    shown = {name: value for name, value in seen.items() if value}
    digest = hashlib.blake2b(encode(sorted(shown.items())), digest_size=16)
    digest.update(content)
    return Record(digest.digest(), encode(form), content)


def message(body: bytes, content: bytes) -> BaseMessage:
    """The message that `record` was given."""
    form = decode(body)
    form["data"]["content"] = decode(content)
    return messages_from_dict([form])[0]


def searchable(item: BaseMessage) -> str:
    """What a person would search a message for: its text, reasoning, and the names and arguments of its
    calls.
    """
    calls = [*getattr(item, "tool_calls", ()), *getattr(item, "invalid_tool_calls", ())]
    parts = list(_texts(item.content))
    for call in calls:
        args = call.get("args")
        written = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=repr)
        parts.append(f"{call.get('name')} {written}")
    reasoning = item.additional_kwargs.get("reasoning_content")
    if isinstance(reasoning, str):
        parts.append(reasoning)
    return "\n".join(parts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for name in ("text", "thinking", "reasoning", "content"):
            yield from _texts(value.get(name))


def _revive(value: dict[str, Any]) -> Any:
    return base64.b64decode(value[_BYTES]) if value.keys() == {_BYTES} else value
