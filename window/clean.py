"""Tool output as a person would have seen it, and in short (E13).

`clean` takes out what a terminal hides or overwrites, and repetition; every distinct line stays. `condense`
goes further: it keeps head, tail and the lines that speak of errors, within a number of tokens. Both are
pure, and linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, islice, pairwise, zip_longest
from typing import NamedTuple

from headwater.window.tokens import count_text

BLANK = "[no visible text]"
"""What a text without a visible character becomes, since no provider takes an empty one."""

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}+(?:\x07|\x1b\\|\x9c)"  # OSC, DCS
    r"|\x1b[ -/]++[0-~]|\x1b[0-~]"
)
_CONTROLS = re.compile("[\x00-\x07\x0e-\x1f\x7f-\x84\x86-\x9f]+")
_OTHER_NEWLINES = re.compile("[\x0b\x0c\x85]|\r++\n")
_STRUCK = re.compile("[^\b]\b(?=[^\b])")
_BACKSPACES = re.compile("\b+|[^\b]+")
_SURROGATES = re.compile("[\ud800-\udfff]")
_BLANK_LINES = re.compile(r"\n{4,}")

_MARK = re.compile(r"^… (?:previous line repeated|\d+ similar progress lines left out)")
_MIN_RUN = 3
_MIN_PROGRESS = 4
_WORDS = re.compile(r"[^\W\d_]+")
_UNITS = frozenset(("b", "k", "m", "g", "kb", "mb", "gb", "kib", "mib", "gib", "s", "ms", "h", "it", "eta"))
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?) ?%")
_RATIO = re.compile(r"\b(\d+) ?(?:/|of) ?\d+\b")
_PROGRESS_CUE = re.compile(
    r"[=#█▉▊▋▌▍▎▏░▒▓━─]{3,}|\d ?(?:[kKMG]i?)?B/s\b|\bit/s\b|\bETA\b|[⠁-⣿]"
    r"|\b(?:download|upload|receiv|resolv|count|compress|writ|updat|progress|install|extract|unpack|fetch"
    r"|load|pull|push|process|build|transfer)\w*|下载|上传|进度|安装|加载|处理|解压|传输",
    re.IGNORECASE,
)


def clean(text: str) -> str:
    """Take out of a tool's output what was never meant to stay (E13).

    Escape sequences and control characters go; a line redrawn by carriage returns or backspaces is its last
    state; runs of one line, and of one progress line with moving counters, are told once with their number;
    trailing space and all but two of successive blank lines go; lone surrogates become U+FFFD. Indentation
    and every distinct line stay. `clean(clean(text)) == clean(text)`.

    Returns:
        The cleaned text; `BLANK` for a text in which nothing is visible; "" for "".
    """
    if not text:
        return ""
    text = _SURROGATES.sub("\ufffd", text)
    text = _ESCAPES.sub("", text) if "\x1b" in text or not text.isascii() else text
    lines = _CONTROLS.sub("", _OTHER_NEWLINES.sub("\n", text.replace("\r\n", "\n"))).split("\n")
    if "\r" in text:
        lines = _last_states(lines)
    if "\b" in text:
        lines = [_overstruck(line) if "\b" in line else line for line in lines]
    text = _BLANK_LINES.sub("\n\n\n", "\n".join(map(str.rstrip, lines)))
    text = "\n".join(_without_progress(_without_repeats(text.split("\n"))))
    return text if text.strip() else BLANK


def _last_states(lines: list[str]) -> list[str]:
    """Each line redrawn by carriage returns as it stood at last."""
    if len(lines) == 1 and _is_old_mac(lines[0]):
        return lines[0].split("\r")
    return [_last_state(line) if "\r" in line else line for line in lines]


def _last_state(line: str) -> str:
    return line.rstrip().rpartition("\r")[2]


def _is_old_mac(text: str) -> bool:
    """Whether carriage returns end the lines: several, no line feed, and neighbours that differ in words."""
    states = [state for state in text.split("\r", 64)[:64] if state.strip()]
    alike = sum(_shape(one) == _shape(other) for one, other in pairwise(states))
    return len(states) >= 4 and alike * 4 < len(states)


def _overstruck(line: str) -> str:
    """A line as its backspaces leave it: what follows them is written over what was there."""
    cells: list[str] = []
    at = 0
    for part in _BACKSPACES.findall(_STRUCK.sub("", line)):
        if part[0] == "\b":
            at = max(0, at - len(part))
        else:
            cells[at : at + len(part)] = part
            at += len(part)
    return "".join(cells)


def _without_repeats(lines: list[str]) -> Iterator[str]:
    for line, group in groupby(lines):
        run = sum(1 for _ in group)
        mark = f"… previous line repeated {run - 1} times"
        if run >= _MIN_RUN and (run - 1) * (len(line) + 1) > len(mark) and line and not _MARK.match(line):
            yield line
            yield mark
        else:
            yield from (line for _ in range(run))


class _Step(NamedTuple):
    shape: tuple[str, ...]
    done: float


def _without_progress(lines: Iterator[str]) -> Iterator[str]:
    """Of a run of progress lines whose counters only grow, the first and the last."""
    run: list[str] = []
    last: _Step | None = None
    for line in lines:
        step = _progress(line)
        if step and last and step.shape == last.shape and step.done >= last.done:
            run.append(line)
        else:
            yield from _first_and_last(run)
            run = [line]
        last = step
    yield from _first_and_last(run)


def _first_and_last(run: list[str]) -> list[str]:
    if len(run) < _MIN_PROGRESS:
        return run
    return [run[0], f"… {len(run) - 2} similar progress lines left out", run[-1]]


def _progress(line: str) -> _Step | None:
    """Shape and advance of a progress line; None for any other line."""
    if len(line) > 400 or ("%" not in line and "/" not in line and " of " not in line) or _MARK.match(line):
        return None
    done = _PERCENT.search(line) or _RATIO.search(line)
    return _Step(_shape(line), float(done[1])) if done and _PROGRESS_CUE.search(line) else None


def _shape(line: str) -> tuple[str, ...]:
    """The words of a line, without numbers, bars and units."""
    return tuple(word for word in _WORDS.findall(line[:400]) if word.lower() not in _UNITS)


LINE_CHARS = 240
"""Longest line that `condense` keeps whole, characters."""
_GAP_TOKENS = 10
# Names, numbers and ids apart; an id has digits in it, so two lines that differ in ids only have one wording.
_PARTS = re.compile(r"[^\W_]+")
_TRIES = 600
# For text in lower case: the engine skips ahead to a first letter only where case counts.
_STRONG = re.compile(
    r"error(?!\"?[:=] ?(?:null|none|0\b|\"\"|false))|exception|traceback|fatal|panic|fail|critical"
    r"|assert|denied|refused|killed|错误|失败|异常|崩溃|拒绝|致命|报错"
)
_WEAK = re.compile(
    r"warn|timed? ?out|not found|no such|unable|cannot|missing|invalid|exit code|exited with|retry"
    r"|警告|超时|未找到|找不到|无法|不存在|无效|缺少|退出码|重试"
)


def condense(text: str, limit_tokens: int = 500) -> str:
    """The head, the tail and the telling lines of a text, with a mark for every gap (E13).

    Lines that speak of errors come before those that warn, each wording once, in the order of the text.

    Args:
        text: Any text, best a cleaned one.
        limit_tokens: The most tokens of the result, by `count_text`.

    Returns:
        The text itself if it is within the limit.

    Raises:
        ValueError: The limit is below 1.
    """
    if limit_tokens < 1:
        raise ValueError(f"limit_tokens={limit_tokens!r} leaves room for nothing; give 1 or more")
    # Above 200 characters a token no ordinary text is within the limit, and need not be counted.
    if len(text) <= limit_tokens * 200 and count_text(text) <= limit_tokens:
        return text
    lines = text.split("\n")
    width = max(LINE_CHARS, 2 * limit_tokens // min(len(lines), 4))
    ranked = _ranked(text, lines)
    while width >= 16:
        kept = _choose(lines, ranked, width, limit_tokens)
        while kept:
            told = _told(lines, sorted(kept), width)
            if count_text(told) <= limit_tokens:
                return told
            kept.pop()
        width //= 2
    return _cut(text, limit_tokens)


class _Ranked(NamedTuple):
    ends: list[int]
    cues: list[int]


def _ranked(text: str, lines: list[str]) -> _Ranked:
    """Line numbers from both ends inward, and those with cues, strong ones first."""
    numbers = range(len(lines))
    first = islice((at for at in numbers if lines[at].strip()), _TRIES)
    last = islice((at for at in reversed(numbers) if lines[at].strip()), _TRIES)
    pairs = zip_longest(first, last)
    ends = dict.fromkeys(at for pair in pairs for at in pair if at is not None)
    wordings: set[tuple[str, ...]] = set()
    lowered = text.lower()
    strong = list(islice(_cue_lines(lowered, lines, _STRONG, wordings), _TRIES))
    return _Ranked(list(ends), strong + list(islice(_cue_lines(lowered, lines, _WEAK, wordings), _TRIES)))


def _cue_lines(
    text: str, lines: list[str], cue: re.Pattern[str], wordings: set[tuple[str, ...]]
) -> Iterator[int]:
    """Numbers of the lines with a cue, the first of each wording."""
    at, done, last = 0, 0, -1
    for found in cue.finditer(text):
        at += text.count("\n", done, found.start())
        done = found.start()
        if at == last:
            continue
        last = at
        wording = tuple(part for part in _PARTS.findall(lines[at][:400]) if part.isalpha())
        if wording not in wordings:
            wordings.add(wording)
            yield at


def _choose(lines: list[str], ranked: _Ranked, width: int, limit: int) -> list[int]:
    """Lines that fit the limit, most telling first: some of both ends, then cues, then more of the ends."""
    kept: list[int] = []
    taken: set[int] = set()
    left = limit - _GAP_TOKENS
    for candidates, floor in ((ranked.ends, limit * 3 // 5), (ranked.cues, 0), (ranked.ends, 0)):
        for at in candidates:
            if left - floor <= 2:
                break
            if at in taken:
                continue
            gap = 0 if at - 1 in taken or at + 1 in taken else _GAP_TOKENS
            cost = count_text(_clip(lines[at], width)) + 1 + gap
            if cost <= left - floor:
                left -= cost
                taken.add(at)
                kept.append(at)
    return kept


def _told(lines: list[str], kept: list[int], width: int) -> str:
    told: list[str] = []
    following = 0
    for at in [*kept, len(lines)]:
        if any(line.strip() for line in lines[following:at]):
            gap = at - following
            told.append(f"… {gap} {'lines' if gap > 1 else 'line'} left out …")
        if at < len(lines):
            told.append(_clip(lines[at], width))
        following = at + 1
    return "\n".join(told)


def _clip(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    head, tail = width * 2 // 3, width // 4
    return f"{line[:head]} … {len(line) - head - tail} characters left out … {line[-tail:]}"


def _cut(text: str, limit: int) -> str:
    """The longest beginning that fits, when not even one line does."""
    low, high = 0, min(len(text), limit * 200)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_text(text[:middle] + "…") <= limit else (low, middle - 1)
    return text[:low] + "…"
