"""What an author says in a text, apart from code, logs and quotations, and its sentences; both languages."""

import re
from collections.abc import Callable, Iterator

from langchain_core.messages import BaseMessage

Count = Callable[[str], int]

MAX_CHARS = 800
"""Characters of a sentence that are looked at."""

SCAN_CHARS = 100_000
"""Characters read at each end of a longer text: a pasted file in the middle holds no statement."""

_BULLET = re.compile(r"^\s*(?:[-*+•]\s+(?:\[[ xX]\]\s*)?|\d{1,3}[.)、]\s*(?=\D)|#{1,6}\s+|\*\*(?=\S))")

_END = re.compile(r"[。！？；]+[”」』）)]?|[.!?;]+[\"'”)\]]?(?=\s|$)|…+(?=\s|$)")

_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|Mr|Ms|Mrs|Dr|No|approx|[A-Z])|^\d+)\.$")

_CODE = re.compile(
    # Keywords open sentences too ("let us", "return only", "from now on"): each needs its syntax.
    r"^\s*(?:(?:import [\w.{*]+(?: as \w+)?|import .* from .*|from [\w.]+ import .*)\s*;?$"
    r"|(?:async )?def \w+\(|class \w+\s*[:({]"
    r"|(?:async |export )*function\b.*[({]|(?:export )?(?:const|let|var) [\w{\[, }\]]+\s*="
    r"|return\b.*[;({\[]$|(?:public|private) \w+.*[({;]"
    r"|(?:if|for|while|elif|with|except|switch|catch)\b.*[:{]$|(?:else|try|finally)\s*[:{]"
    r"|package [\w.]+;?$|(?:func|fn|impl) .*[({]"
    r"|(?:SELECT|INSERT|UPDATE|CREATE|DELETE) .*|#include|#!|//|/\*|\*/|@\w+\b[^ ]*$|\$ |>>> |>"
    r"|\.\.\. |\||\+\+\+ |--- |@@ "
    r"|</?[a-zA-Z][^>]*>|Traceback|File \"|at \S+\(|at \S+:\d|\S+:\d+:\d+:|\d+(?:[:|\t]|\s*→)\s"
    r"|\[?\d{4}-\d\d-\d\d[T ]|\[?\d\d:\d\d:\d\d"
    r"|\[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|FATAL|TRACE|CRITICAL|NOTICE)\b[\]: ]|[\w.]+(?:Error"
    r"|Exception): |[\"'][\w.-]+[\"']\s*:"
    r"|[\w.\[\]]+\s*[+-]?=\s*\S)|^(?: {4,}|\t)(?![-*•\d])|[{;]\s*$|^\s*[}\])]+[;,]?\s*$"
)

_SYMBOL = re.compile(r"[{}\[\]()=<>;|&$\\\"+*_/]")

_FENCE = re.compile(r"^\s{0,3}(```|~~~)")

_OPEN_TAG = re.compile(r"^\s*<([A-Za-z][\w:-]*)(?:\s[^<>]*)?>")

_CLOSE_TAG = re.compile(r"</([A-Za-z][\w:-]*)>\s*$")

_THINK = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.S)


def said_in(message: BaseMessage) -> str:
    """The text a message says, without reasoning; blocks are joined by newlines."""
    content = message.content
    if isinstance(content, str):
        return _THINK.sub("", content)
    blocks = [block if isinstance(block, str) else block.get("text") for block in content]
    return "\n".join(block for block in blocks if isinstance(block, str))


def is_code(line: str) -> bool:
    """Whether a line looks like code, a log, a quotation or a table rather than what its author says."""
    line = line[:MAX_CHARS]
    if _CODE.search(line):
        return True
    dense = len(_SYMBOL.findall(line))
    return dense >= 6 and dense > 0.15 * len(line)


def prose_lines(text: str) -> list[str]:
    """Lines that the author says: no fenced code, tagged inserts, quotations, logs or pasted code."""
    if len(text) > 2 * SCAN_CHARS:
        text = text[:SCAN_CHARS] + "\n\n" + text[-SCAN_CHARS:]
    lines = text.splitlines()
    closing = {name: i for i, line in enumerate(lines) for name in _CLOSE_TAG.findall(line)}
    kept: list[str] = []
    block: list[str] = []
    i = 0
    while i < len(lines):
        line = lines[i]
        tag, fence = _OPEN_TAG.match(line), _FENCE.match(line)
        if fence or not line.strip():
            kept += _prose_of(block)
            block = []
        if fence:
            i += 1
            while i < len(lines) and not lines[i].lstrip().startswith(fence[1]):
                i += 1
        elif tag and closing.get(tag[1], -1) >= i:
            i = closing[tag[1]]
        elif line.strip():
            block.append(line)
        i += 1
    return kept + _prose_of(block)


def _prose_of(block: list[str]) -> list[str]:
    prose = [line for line in block if not is_code(line)]
    return [] if len(block) > 1 and 2 * len(prose) <= len(block) else prose


def sentences(text: str) -> list[str]:
    """Sentences of English and Chinese prose, without list marks, in order.

    >>> sentences("Use v1.2.3, e.g. here. Then stop!  先看日志。再改代码；不要重启")
    ['Use v1.2.3, e.g. here.', 'Then stop!', '先看日志。', '再改代码；', '不要重启']
    """
    found: list[str] = []
    for line in text.splitlines():
        found += _split(_BULLET.sub("", line).strip().strip("*"))
    return found


def _split(line: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(line):
        if end[0][0] == "." and _ABBREVIATION.search(line[max(start, end.end() - 12) : end.end()]):
            continue
        if piece := line[start : end.end()].strip():
            yield piece
        start = end.end()
    if piece := line[start:].strip():
        yield piece


def clip(text: str, limit: int, count: Count) -> str:
    """The longest beginning of a text within ``limit`` tokens, cut where a sentence ends if near."""
    if limit < 1:
        return ""
    if count(text) <= limit:
        return text
    low, high = 0, min(len(text), 12 * limit)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= limit else (low, middle - 1)
    head = text[:low]
    ends = [end.end() for end in _END.finditer(head)] + [i for i, char in enumerate(head) if char == "\n"]
    cut = max((end for end in ends if 2 * end >= low), default=low)
    return head[:cut].rstrip()
