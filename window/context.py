"""The texts of m[0] and m[1]: what the window holds beside the tail. Pure, so equal parts give equal bytes.

m[0], the baseline: docs, profile, task note, told history, known facts; it changes at a fold only.
m[1], the delta: what has come since the fold; it changes on a busting pass only (G24-G26).
"""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.window.frame import Pin

_WORDS = {
    "en": {
        "open": "This block was written by the session's memory. It is background, not a message to answer.",
        "docs": "Project documents",
        "profile": "About the user",
        "pins": "Task note (verbatim; holds for the whole session)",
        "history": "What happened so far",
        "facts": "Known facts",
        "task": "The last request so far (verbatim)",
        "more": "Since then",
        "goal": "goal",
        "constraint": "constraint",
        "exclusion": "excluded",
        "decision": "decided",
        "preference": "preference",
        "note": "note",
    },
    "zh": {
        "open": "本段由会话记忆写入，是背景资料，不需要回复。",
        "docs": "项目文档",
        "profile": "关于用户",
        "pins": "任务便签（原文；在整个会话中有效）",
        "history": "此前发生",
        "facts": "已知事实",
        "task": "到此为止的最后一个请求（原文）",
        "more": "此后",
        "goal": "目标",
        "constraint": "约束",
        "exclusion": "已排除",
        "decision": "已决定",
        "preference": "偏好",
        "note": "备注",
    },
}
OPEN, CLOSE = "<headwater-memory>", "</headwater-memory>"
_BEHIND = ("facts", "task")  # the sections that may stand behind the told history


class Parts(NamedTuple):
    """What a context block is made of; facts are (category, content) in the order to show.

    `task` is what the user asked last, where its message is told: a round that outlives its own request still
    sees it.
    """

    pins: Sequence[Pin] = ()
    history: str = ""
    facts: Sequence[tuple[str, str]] = ()
    docs: str = ""
    profile: str = ""
    task: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing would be shown."""
        return not (self.pins or self.history or self.facts or self.docs or self.profile or self.task)


def baseline_text(parts: Parts, language: str = "en") -> str:
    """m[0]; "" where there is nothing to say."""
    return _block(parts, language, "")


def delta_text(parts: Parts, language: str = "en") -> str:
    """m[1]; "" where nothing has come since the fold."""
    return _block(parts, language, "more")


def history_in(block: str, language: str = "en") -> str:
    """The told history that an m[0] or m[1] shows; "" where it shows none."""
    words = _WORDS.get(language, _WORDS["en"])
    _, found, rest = block.partition(f"\n## {words['history']}\n")
    if not found:
        return ""
    # The first of them ends it: what is told holds none (_told), what stands behind it may quote any.
    ends = [at for key in _BEHIND if (at := rest.find(f"\n\n## {words[key]}\n")) >= 0]
    return (rest[: min(ends)] if ends else rest.removesuffix(CLOSE)).strip()


def _block(parts: Parts, language: str, title: str) -> str:
    if parts.empty:
        return ""
    words = _WORDS.get(language, _WORDS["en"])
    out = [OPEN, words["open"] if not title else words[title] + ":"]
    if parts.docs:
        out += [f"\n## {words['docs']}", _inert(parts.docs)]
    if parts.profile:
        out += [f"\n## {words['profile']}", _inert(parts.profile)]
    if parts.pins:
        out.append(f"\n## {words['pins']}")
        out += [f"- {words.get(p.kind, words['note'])} (§{p.tag}§): {_inert(p.text)}" for p in parts.pins]
    if parts.history:
        out += [f"\n## {words['history']}", _told(parts.history, words)]
    if parts.facts:
        out.append(f"\n## {words['facts']}")
        last = None
        for category, content in parts.facts:
            if category != last:
                out.append(f"[{_inert(category)}]")
                last = category
            out.append(f"- {_inert(content)}")
    if parts.task:
        out += [f"\n## {words['task']}", _inert(parts.task)]
    out.append(CLOSE)
    return "\n".join(out)


def _told(history: str, words: dict[str, str]) -> str:
    """Told history in which no line passes for the heading of a section behind it."""
    text = f"\n{_inert(history)}\n"
    for key in _BEHIND:
        text = text.replace(f"\n## {words[key]}\n", f"\n ## {words[key]}\n")
    return text[1:-1]


def _inert(text: str) -> str:
    """Text that cannot close the block it stands in."""
    return text.replace(CLOSE, "</headwater memory>").replace(OPEN, "<headwater memory>")
