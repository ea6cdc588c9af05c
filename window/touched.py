"""The files that tool calls read and changed, by the names of tools and arguments (C10)."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from headwater.window.prose import SCAN_CHARS

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_WRITES = frozenset(
    [
        "write",
        "edit",
        "apply",
        "patch",
        "create",
        "update",
        "insert",
        "replace",
        "save",
        "append",
        "modify",
        "delete",
        "move",
        "rename",
    ]
)
_READS = frozenset(["read", "view", "open", "cat", "load", "show", "get", "head", "tail"])
_PATH_KEYS = [
    "path",
    "file_path",
    "filepath",
    "filename",
    "file",
    "target_file",
    "relative_path",
    "absolute_path",
    "notebook_path",
    "paths",
    "files",
]
_PATCHED = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?)(\S+)", re.M)


def touched_files(messages: Iterable[BaseMessage]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Paths that tool calls read and modified, each in order of first use (C10)."""
    read: dict[str, None] = {}
    modified: dict[str, None] = {}
    for message in messages:
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            args: dict[str, Any] = call["args"]
            words = {word.lower() for word in _WORDS.findall(call["name"])}
            command = str(args.get("command", "")).split(" ", 1)[0].lower()
            if words & _WRITES and command not in _READS:
                modified.update(dict.fromkeys(_paths(args)))
            elif (words | {command}) & _READS:
                read.update(dict.fromkeys(_paths(args)))
    return tuple(read), tuple(modified)


def _paths(args: dict[str, Any]) -> Iterator[str]:
    for key in _PATH_KEYS:
        value = args.get(key)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str) and 0 < len(path.strip()) <= 400 and "\n" not in path:
                yield path.strip()
    for key in ("patch", "input", "diff"):
        if isinstance(value := args.get(key), str):
            yield from _PATCHED.findall(value[:SCAN_CHARS])
