"""What a summary must be before it may stand in for messages, and its repair without a model (E12, M12–M15).

A summary that is empty, vague at its end, cut off, no smaller, a tool call in disguise or in another language
than the user's is rejected. One that passes is repaired: every name that a user stated or a decision rests
on, and that it lost, is appended as one anchor line.
"""

import json
import re
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from headwater.window.answer import FENCED
from headwater.window.cues import DECISION, EXCLUSION, identifiers, language_of, pin_kind
from headwater.window.prose import Count, prose_lines, said_in, sentences
from headwater.window.tokens import count_text

ANCHOR_TOKENS = 400
"""Most tokens of the anchor line."""

MAX_REQUIRED = 200
"""Most names required of one summary."""


_CUT_OFF = frozenset({"length", "max_tokens", "model_length", "max_output_tokens", "incomplete"})
_NOTHING = frozenset(
    {"null", "none", "nil", "undefined", "n/a", "na", "empty", "no summary", "空", "无", "没有", "暂无"}
)
_VAGUE_EN = re.compile(
    r"(?:\betc|\bet cetera|\band so (?:on|forth)|\band (?:the like|(?:many )?others|such|stuff)"
    r"|\bamong others|\band more"
    r"|\.\.+|…)$",
    re.I,
)
_VAGUE_ZH = re.compile(
    r"(?:等等|之类(?:的(?:东西|内容)?)?|诸如此类|以此类推|云云|什么的|、[^、，。；\s]{1,20}等)$"
)
_CALL = re.compile(
    r"^\s*(?:<(?:tool_call|tool_use|function_calls?|function|invoke|tool)\b[^>]*>|<\|?(?:tool|python_tag)"
    r"|\[TOOL_CALLS\]"
    r"|<[\w-]+:(?:invoke|function_calls|tool_call)\b|(?:Action|Tool)(?: Input)?:\s*[\w.]+\s*$"
    r"|to=functions\.)",
    re.M | re.I,
)
_DANGLING = re.compile(
    r"(?:[,:，：、(（\[{“「《-]|\b(?:the|an?|of|to|and|or|but|with|for|in|on|at|by|from|is|was|were"
    r"|are|that"
    r"|which|into|as"
    r"|because|than|not|be|their|its|this)|[和与或及把被在对向从将为且])$",
    re.I,
)
_TERMINAL = re.compile(r"[。！？；!?]|\.(?=[”)\"'*_`]*(?:\s|$))")
_ITEM = re.compile(r"^\s*(?:[-*+•|#>§]|\d{1,3}[.)、]|[A-Z]{1,2}: )")
_LATIN_WORD = re.compile(r"[A-Za-z]+")
_HAN_CHAR = re.compile(r"[\u4e00-\u9fff]")
_SEPARATOR = " · "
_LABELS = {"en": "Anchors: ", "zh": "要点："}


def reject(
    summary: str,
    source_tokens: int,
    *,
    finish_reason: str | None = None,
    language: str | None = None,
    count: Count = count_text,
) -> str | None:
    """Why a summary may not replace its source, or None when it may.

    Args:
        summary: The text that would stand in the window.
        source_tokens: Tokens of what it replaces.
        finish_reason: The provider's word for why the output ended.
        language: The user's, as ``language_of`` names it; ``und`` and None check nothing.
        count: Counts the tokens of a text.

    >>> reject("Checked the disk, the network, etc.", 1000)
    'vague ending: "etc"'
    """
    text = summary.strip()
    if text.strip("\"'`*.。{}[]()- \n").lower() in _NOTHING | {""}:
        return f"empty: {text[:40]!r}"
    if finish_reason and finish_reason.lower() in _CUT_OFF:
        return f"truncated: finish reason {finish_reason!r}"
    if _is_call(text):
        return f"tool call instead of prose: {text[:60]!r}"
    if vague := _vague_end(text):
        return f'vague ending: "{vague}"'
    if cut := _cut_off(text, ended=finish_reason is not None):
        return f"truncated: {cut}"
    if (tokens := count(text)) >= source_tokens:
        return f"not smaller: {tokens} tokens for {source_tokens}"
    spoken = language_of(text)
    if language and "und" not in (language, spoken) and spoken != language:
        return f"language {spoken!r} instead of the user's {language!r}"
    return None


def _is_call(text: str) -> bool:
    bare = match[1].strip() if (match := FENCED.fullmatch(text)) else text
    if bare[:1] in "{[" and bare[-1:] in "}]":
        try:
            return isinstance(json.loads(bare, strict=False), dict | list)
        except (ValueError, RecursionError):
            pass
    return _CALL.search(FENCED.sub(" ", text)) is not None


def _vague_end(text: str) -> str:
    """The vague words a text closes with (E12). A quoted one ends in its quotation mark, and is not found."""
    # Of closing full stops only one is punctuation; two or three are an ellipsis.
    end = text.rstrip(" \n\t*_)）]】。！!")
    end = end[:-1] if end.endswith(".") and not end.endswith("..") else end
    found = _VAGUE_EN.search(end[-80:])
    if not found and language_of(text) == "zh":
        found = _VAGUE_ZH.search(end[-80:])
    return found[0] if found else ""


def _cut_off(text: str, *, ended: bool) -> str:
    """How a text shows that it was cut; ``ended`` says that the provider named another reason to stop."""
    if text.count("```") % 2:
        return "unclosed code fence"
    last = text.rsplit("\n", 1)[-1].strip().rstrip("*_")
    if _DANGLING.search(last):
        return f"ends mid-sentence at {last[-30:]!r}"
    if any(last.count(a) > last.count(b) for a, b in ("()", "（）", "“”", "「」")):
        return f"unclosed bracket or quotation in {last[-40:]!r}"
    ends = [end.end() for end in _TERMINAL.finditer(text)]
    if ended or len(ends) < 2 or _ITEM.match(last):
        return ""
    # Writers who punctuate leave a short closing open ("Port: 5432"), but not a whole clause.
    rest = text[ends[-1] :].rsplit("\n", 1)[-1]
    if len(_LATIN_WORD.findall(rest)) >= 7 or len(_HAN_CHAR.findall(rest)) >= 14:
        return f"ends mid-sentence at {last[-30:]!r}"
    return ""


def required_identifiers(messages: Sequence[BaseMessage]) -> list[str]:
    """Names that a summary of the messages must carry, most binding first, at most ``MAX_REQUIRED``.

    Those in the user's constraints, decisions, exclusions and preferences come first, then those in decisions
    and exclusions of the assistant's, then those in the user's other sentences. Pasted code and logs are not
    statements.
    """
    ranked: tuple[dict[str, None], ...] = ({}, {}, {})
    for message in messages:
        if not isinstance(message, HumanMessage | AIMessage):
            continue
        user = isinstance(message, HumanMessage)
        for line in prose_lines(said_in(message)):
            for sentence in sentences(line):
                if user:
                    rank = 0 if pin_kind(sentence) else 2
                elif DECISION.found(sentence) or EXCLUSION.found(sentence):
                    rank = 1
                else:
                    continue
                ranked[rank].update(dict.fromkeys(identifiers(sentence)))
    return list(dict.fromkeys(name for names in ranked for name in names))[:MAX_REQUIRED]


def repair(
    p1: str,
    required: Sequence[str],
    *,
    limit: int = ANCHOR_TOKENS,
    language: str | None = None,
    count: Count = count_text,
) -> str:
    """The summary with the names it lost appended as one anchor line; doing it twice changes nothing.

    Args:
        p1: The summary.
        required: Names, most binding first. Names with line breaks or outer blanks, or longer than a quarter
            of the limit, are left out; the archive has them.
        limit: Most tokens of the anchor line; the first name that does not fit ends it.
        language: ``zh`` labels the line in Chinese; by default the summary's own.
        count: Counts the tokens of a text.
    """
    body, anchors = p1.rstrip(), ""
    head, _, tail = body.rpartition("\n")
    label = next((label for label in _LABELS.values() if tail.startswith(label)), "")
    if label:
        body, anchors = head, tail
    label = label or _LABELS["zh" if (language or language_of(p1)) == "zh" else "en"]
    present = p1
    for name in dict.fromkeys(required):
        if (
            name != name.strip()
            or name.splitlines() != [name]
            or count(name) > limit // 4
            or _names(present, name)
        ):
            continue
        longer = f"{anchors}{_SEPARATOR}{name}" if anchors else f"{label}{name}"
        if count(longer) > limit:
            break
        anchors, present = longer, f"{present}\n{longer}"
    return p1 if present is p1 else f"{body}\n{anchors}".lstrip("\n")


def _names(text: str, name: str) -> bool:
    """Whether a text has a name whole: port 80 is not in 8080."""
    start = text.find(name)
    while start >= 0:
        before, after = (
            text[start - 1 : start] if start else "",
            text[start + len(name) : start + len(name) + 1],
        )
        if not (_joins(before, name[0]) or _joins(name[-1], after)):
            return True
        start = text.find(name, start + 1)
    return False


def _joins(left: str, right: str) -> bool:
    return bool(left and right) and (left + right).isascii() and left.isalnum() and right.isalnum()
