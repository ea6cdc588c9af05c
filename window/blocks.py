"""The five blocks of the window and what each weighs (E1-E3, E22)."""

from collections.abc import Sequence
from typing import Any

from headwater.window.frame import Frame
from headwater.window.marks import tag_of
from headwater.window.policy import Lines
from headwater.window.providers import DEFAULT, Provider
from headwater.window.render import Renderer, Texts, render_head
from headwater.window.tokens import count_message, count_tools

BLOCKS = ("reserve", "tools", "contract", "tail", "history", "observations")


def window_report(
    frame: Frame,
    messages: Sequence[Any],
    texts: Texts,
    lines: Lines,
    tools: Sequence[Any] = (),
    provider: Provider = DEFAULT,
) -> dict[str, int]:
    """Tokens per block, in order of what it costs to lose them, with `total` and `window`.

    `reserve` and `tools` are never touched (E2, E3); `contract` is the system prompt; `tail` the raw
    messages but for tool results; `history` is m[0] and m[1], the task note included; `observations` are
    the tool results in the tail. `total` is what the request sends: all but the reserve.
    """
    report = dict.fromkeys(BLOCKS, 0)
    report["reserve"] = lines.window - lines.usable
    report["tools"] = count_tools(tools)
    head = render_head(texts, provider)
    for message in head:
        report["contract" if message.type == "system" else "history"] += count_message(message)
    renderer = Renderer(frame, has_head=any(m.type == "human" for m in head), provider=provider)
    for message in messages:
        renderer.feed(message)
    for shown in renderer.shown:
        report["observations" if shown.message.type == "tool" else "tail"] += shown.tokens
    report["tail"] += sum(count_message(m) for m in renderer.finish())
    report["total"] = sum(report[name] for name in BLOCKS) - report["reserve"]
    report["window"] = lines.window
    return report


def newest_tag(messages: Sequence[Any]) -> int:
    """The newest tag among messages; 0 where none is numbered."""
    return next((tag for m in reversed(messages) if (tag := tag_of(m))), 0)
