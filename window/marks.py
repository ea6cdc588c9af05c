"""Tags: a message's permanent number in its session, and the mark §N§ that shows it."""

import re
from collections.abc import Iterable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

STAMP = "headwater"
_MARK = re.compile(r"§\d{1,7}§ ?")
_RANGE = re.compile(r"§?(\d{1,7})§?(?:-§?(\d{1,7})§?)?")
_DASH = re.compile(r"\s*[-–]\s*")
MAX_RANGE = 1_000


class TagError(ValueError):
    """A tag range that cannot be read; the message shows the form that can."""


def mark(tag: int) -> str:
    """The visible form of a tag."""
    return f"§{tag}§"


def stamp(message: BaseMessage, tag: int) -> BaseMessage:
    """A copy of the message that carries its tag wherever the message goes."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, STAMP: tag}})


def tag_of(message: BaseMessage) -> int:
    """The tag a message carries; 0 where it has not been numbered yet."""
    tag = message.additional_kwargs.get(STAMP, 0)
    return tag if isinstance(tag, int) else 0


def unstamped(message: BaseMessage) -> BaseMessage:
    """The message as it was before it was numbered."""
    if STAMP not in message.additional_kwargs:
        return message
    kwargs = {k: v for k, v in message.additional_kwargs.items() if k != STAMP}
    return message.model_copy(update={"additional_kwargs": kwargs})


def strip_echo(message: AIMessage) -> AIMessage:
    """Remove marks that the model copied into its answer, so that they do not multiply."""
    content = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": _MARK.sub("", content)}) if "§" in content else message
    blocks = [_without_marks(block) for block in content]
    return message if blocks == content else message.model_copy(update={"content": blocks})


def _without_marks(block: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(block, str):
        return _MARK.sub("", block)
    if block.get("type") != "text" or "§" not in (block.get("text") or ""):
        return block
    return {**block, "text": _MARK.sub("", block["text"])}


def spans(tags: Iterable[int]) -> list[list[int]]:
    """Ascending tags as [first, last] runs: [3, 4, 5, 8] gives [[3, 5], [8, 8]]."""
    runs: list[list[int]] = []
    for tag in tags:
        if runs and tag == runs[-1][1] + 1:
            runs[-1][1] = tag
        else:
            runs.append([tag, tag])
    return runs


def parse_ranges(text: str, known: Iterable[int] | None = None) -> list[int]:
    """Tags named by a text such as "3-5, 8" or "§12§", in order and once each.

    Raises:
        TagError: The text has another form, a range is reversed, more than 1,000 tags are named,
            or `known` is given and lacks one of them.
    """
    tags: dict[int, None] = {}
    for part in re.split(r"[,，、;；\s]+", _DASH.sub("-", text.strip())):
        if not part:
            continue
        match = _RANGE.fullmatch(part)
        if match is None:
            raise TagError(f"{part!r} is not a tag or a range of tags; write them like '3-5,8'")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise TagError(f"{part!r} runs backwards; write '{last}-{first}'")
        if last - first < MAX_RANGE:
            tags.update(dict.fromkeys(range(first, last + 1)))
        if last - first >= MAX_RANGE or len(tags) > MAX_RANGE:
            raise TagError(f"{text[:80]!r} names more than {MAX_RANGE:,} tags; ask for fewer at a time")
    if not tags:
        raise TagError(f"{text!r} names no tag; write tags like '3-5,8'")
    if known is not None:
        unknown = sorted(set(tags) - set(known))
        if unknown:
            raise TagError(f"this session has no message {', '.join(map(mark, unknown[:8]))}")
    return list(tags)
