"""Images in messages: how many a request may hold, and what stands for one that is not shown (case 32).

The oldest leave first, half of the limit at a time, so that most new images move nothing before them.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage

KINDS = frozenset({"image", "image_url", "input_image", "image_file"})
NOT_SHOWN = "[image not shown: this request holds as many as the provider takes; ctx_expand brings it back]"
FOLLOWS = "[image: shown in the next message]"

M = TypeVar("M", bound=BaseMessage)


def is_image(block: Any) -> bool:
    """Whether a content block is an image."""
    return isinstance(block, dict) and block.get("type") in KINDS


def images_in(message: BaseMessage) -> int:
    """Images that a message holds."""
    return 0 if isinstance(message.content, str) else sum(map(is_image, message.content))


def images_to_hide(count: int, limit: int | None) -> int:
    """How many of the oldest of `count` images are not shown under a provider's limit.

    Example:
        >>> [images_to_hide(n, 8) for n in (8, 9, 12, 13, 45)]
        [0, 4, 4, 8, 40]
    """
    if limit is None or count <= limit:
        return 0
    step = max(1, limit // 2)
    return -(-(count - limit) // step) * step


def hide_images(message: M, count: int) -> M:
    """The message with its first `count` images as placeholders."""
    if not count or isinstance(message.content, str):
        return message
    content: list[str | dict[str, Any]] = []
    for block in message.content:
        if is_image(block) and count:
            count -= 1
            block = {"type": "text", "text": NOT_SHOWN}
        content.append(block)
    return message.model_copy(update={"content": content})


def split_images(content: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Content with a note in place of each image, and the images."""
    images = [block for block in content if is_image(block)]
    return [{"type": "text", "text": FOLLOWS} if is_image(b) else b for b in content], images
