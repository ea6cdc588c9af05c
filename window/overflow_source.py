"""What an error says: its words, bodies, responses and causes as plain text, with the status it carries.

Duck-typed, so that the exceptions of openai, anthropic, httpx and botocore need no import here. Only
what speaks is read (messages, codes, counts); a request that the body echoes is not.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from headwater.window.overflow_quotes import complains

_MAX_CHARS = 20_000
_HEAD, _TAIL = 14_000, 5_999
_CHAIN = 6
_DEPTH = 6
# The keys of an error body that say what is wrong; all others, the echoed request among them, stay unread.
_SPEAKING = re.compile(
    r"(?:error_?)?(?:message|msg|code|type|description)|errors?|errmsg|details?|reason|raw|metadata|title|body"
    r"|response|status(?:_msg|_code)?|base_resp|(?:finish|stop)_reason|choices|candidates|n_prompt_tokens|n_ctx"
)


class Source(NamedTuple):
    """One thing that an error says, and whether it came as an error or as a text that may quote one."""

    text: str
    status: int | None
    trusted: bool


def _bounded(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_HEAD]}\n{text[-_TAIL:]}"


def _loads(text: str) -> Any:
    """A JSON or Python literal in a text (its outermost braces), or None."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end <= start or len(text) > _MAX_CHARS:
        return None
    body = text[start : end + 1]
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(body)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def _flatten(body: Any, depth: int = 0) -> Iterator[str]:
    """The parts of an error body that speak: messages, codes and counts, not the echoed request."""
    if depth > _DEPTH:
        return
    if isinstance(body, Mapping):
        for key, value in body.items():
            name = str(key).lower()
            if not _SPEAKING.fullmatch(name):
                continue
            if isinstance(value, (Mapping, list)):
                yield from _flatten(value, depth + 1)
            elif isinstance(value, str):
                yield from [f"{name}: {value}"] if value.isdecimal() else _unwrap(value, depth + 1)
            elif isinstance(value, int) and not isinstance(value, bool):
                yield f"{name}: {value}"
    elif isinstance(body, list):
        for item in body[:20]:
            yield from _flatten(item, depth + 1)
    elif isinstance(body, str):
        yield from _unwrap(body, depth + 1)


def _unwrap(text: str, depth: int = 0) -> Iterator[str]:
    """A text, bounded, with an error body inside it replaced by what the body says."""
    text = _bounded(text)
    loaded = _loads(text) if depth < _DEPTH else None
    if isinstance(loaded, Mapping) and loaded:
        head = text[: text.find("{")]
        yield head
        if complains(head):
            return  # "could not parse the arguments: {…}": what the client wrote
        yield from _flatten(loaded, depth + 1)
    else:
        yield text


def _join(pieces: Iterable[str]) -> str:
    return _bounded(" \n".join(dict.fromkeys(pieces)))


def _is_chat(body: Any) -> bool:
    return isinstance(body, Mapping) and "role" in body and "error" not in body


def _status_of(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600 else None


def _body_status(body: Any) -> int | None:
    if not isinstance(body, Mapping):
        return None
    meta = body.get("ResponseMetadata")
    found: tuple[object, ...] = (body.get("status_code"), body.get("status"), body.get("code"))
    if isinstance(meta, Mapping):
        found = (meta.get("HTTPStatusCode"), *found)
    status = next(filter(None, map(_status_of, found)), None)
    return status or _body_status(body.get("error"))


def _from_exception(error: BaseException) -> Source:
    """Everything one exception says: its class, its words, its body, its response."""
    names = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ != "builtins"]
    response = getattr(error, "response", None)
    try:
        answer = getattr(response, "text", None)
    except RuntimeError:  # httpx: the body of a streamed response that was not read
        answer = None
    pieces: list[str] = []
    body = getattr(error, "body", None)
    for piece in (str(error), getattr(error, "message", None), body, response, answer):
        if isinstance(piece, str):
            pieces.extend(_unwrap(piece))
        elif isinstance(piece, Mapping):
            pieces.extend(_flatten(piece))
    owners = ((error, "status_code"), (error, "http_status"), (error, "status"), (error, "code"))
    stated = [getattr(owner, name, None) for owner, name in (*owners, (response, "status_code"))]
    status = next(filter(None, map(_status_of, stated)), None) or _body_status(body) or _body_status(response)
    return Source(_join([*names, *pieces]), status, True)


def sources(error_or_text: object) -> Iterator[Source]:
    """What a text, a body or an exception and its causes (at most 6) say, the outermost first.

    A chat message (a body with a role and no error) says nothing: what it quotes did not happen to us.
    """
    if isinstance(error_or_text, str):
        text = _bounded(error_or_text)
        loaded = _loads(text)
        if not _is_chat(loaded):
            bodied = isinstance(loaded, Mapping) and bool(loaded)
            yield Source(_join(_unwrap(text)) if bodied else text, _body_status(loaded), bodied)
    elif isinstance(error_or_text, Mapping):
        if not _is_chat(error_or_text):
            yield Source(_join(_flatten(error_or_text)), _body_status(error_or_text), True)
    elif isinstance(error_or_text, BaseException):
        error: BaseException | None = error_or_text
        for _ in range(_CHAIN):
            if error is None:
                return
            yield _from_exception(error)
            error = error.__cause__ or error.__context__
