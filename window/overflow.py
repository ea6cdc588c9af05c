"""Tell a window refusal from every other error, and read what it teaches.

Only the provider's refusal proves an overflow (M17). `parse_overflow` recognises it by its text, in
English and Chinese, and reads the true limit and the size asked for; the status only helps to say no (M21).
`silent_overflow` finds the overflow that no error announces.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from headwater.window.overflow_grammar import lex, normalise
from headwater.window.overflow_numbers import read_numbers
from headwater.window.overflow_quotes import own_words
from headwater.window.overflow_relations import (
    HINT,
    STRONG,
    WEAK,
    blamed_parameter,
    by_numbers,
    in_tokens,
    kind_of,
    surest_relation,
)
from headwater.window.overflow_source import sources

_BAD_REQUEST = 400
_REFUSED = frozenset({_BAD_REQUEST, 413, 422})


class Overflow(NamedTuple):
    """A proven overflow: the limit in tokens, the tokens asked for (None where not said), and its kind.

    Kinds: "input" (the history does not fit), "combined" (history and output cap together do not), "output"
    (the output cap is the cause: lower the cap and leave the history alone), "silent" (no error said so).
    """

    limit: int | None
    requested: int | None
    kind: str


# What is refused for another reason, whatever else the sentence says: rates, quotas, money, load.
_OTHER_REASON = re.compile(
    r"rate[\s_-]?limit|too[\s_-]many[\s_-]requests|throttl|quota|\b[tr]p[mdh]\b|requests? per|time ?frame"
    r"|(?:per[\s_-]|/ ?|\bpro |\bpar |last )(?:min|minute|hour|day|second|week|month|sec|s|stunde|tag"
    r"|monat|heure|jour|mois)\b|ratenlimit|kontingent|(?:dai|month|week|hour)ly|\btier\b|billing|credit"
    r"|peak load|(?:increase|raise) the (?:\w+ ){0,2}(?:batch|timeout|memory)"
    r"|can only afford|insufficient|payment|\bbalance\b|subscription|retry after"
    r"|(?:please )?wait (?:a |before|for)"
    r"|try again in \d|this (?:minute|hour|week|month)\b|\bspend\b|moderation|审核"
    r"|context window (?:is )?too small|overloaded|high demand"
    r"|resource[\s_]exhausted"
    r"|string_above_max|(?<![a-z])encoder prompt"
    r"|(?:\bcode|\bstatus|\bhttp)[\w ]{0,12}[\s:=(]{1,4}4(?:29|01|02|03|04)\b"
    r"|^\W{0,3}4(?:29|01|02|03|04) "
    r"|限流|限速|流控|频率|频繁|配额|限额|额度|余额|欠费|充值|套餐|每[分秒小天日月]|今日|当[天日]|稍后[再重]?试|qps|授权|计费"
)
_YOUR_LIMIT = re.compile(
    r"exceed\w* (?:your|the organi[sz]ation'?s|the account'?s) (?:\S+ ){0,4}?(?:limit|plan|cap|allow)"
)
_CHARS = re.compile(r"\d\s?(?:characters?|chars?\b|bytes?\b|[kmg]i?b\b|字符|字节|字(?!节))")
_PERCENT = re.compile(r"\d\s?%")
_NO_BODY = re.compile(r"^\W{0,3}(?:error:? ?)?4(?:00|13) (?:status code )?\(no body\)\W*$")
_MALFORMED = re.compile(r"malformed input request\W.{0,40}\bmax_?length: \d")

# What people and models write about an overflow, and a provider does not: surely, and probably.
_TALK = re.compile(
    r"\b(?:i(?!\.e)|i'm|i've|i'll|i'd|let's|let us|we (?:should|need|must|can|saw|have|got|hit)|we're|we've"
    r"|the user|according to|(?:the|our) docs|complain\w*|debugging|investigat\w*|regression|mystery"
    r"|strange|quoted|the (?:tests?|log|tool result|document|agent))\b"
    r"|\bexcept [a-z_.]+|\braise [a-z_]+|\bdef |\bimport |```"
    r"|我们|我(?!方)|用户|日志|排查|修复|这个报错|讨论|为什么|怎么"
)
_MAYBE_TALK = re.compile(
    r"\b(?:we|users|you'll (?:get|see)|you get|you see|means?|says|said|saying|for example|e\.g|such as"
    r"|(?<!request )(?<!rejected )(?<!failed )because|therefore"
    r"|workaround|todo|changelog|debug|fix(?:ed|es)?|bugs?|issue|mentions?|tests?"
    r"|why|it's|which is expected|recovered|this document|pricing|billed|warning|triggered"
    r"|tickets?|titled?)\b"
    r"|\breturn |^#{1,4} |^[-*] "
    r"|例如|比如|文档|意思是|说明了?|这种|这类|这是|因为|所以|问题是"
)
_ERROR_START = re.compile(
    r"\W{0,4}(?:error|exception|traceback|http|status"
    r"|\d{3}\b|data:|event:|[\w.]{0,60}(?:error|exception)\b)"
)
_QUOTED = re.compile(r"[\"“「]([^\"”」\n]{0,400})[\"”」]|`([^`\n]{0,400})`")

_FINISHED_BY_WINDOW = frozenset({"model_context_window_exceeded", "context_window_exceeded"})
_FINISHED_BY_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens"})


def _is_talk(source: str, text: str) -> bool:
    """A text about an overflow, not an overflow: narration, a question, a quotation, a long document."""
    if _MAYBE_TALK.search(text) or text.rstrip().endswith(("?", "？")):
        return True
    if len(text) > 2_000 and not _ERROR_START.match(text):
        return True
    outside = _QUOTED.sub(" ", source)
    words = len(re.findall(r"[A-Za-z]{2,}|[\u4e00-\u9fff]", outside))
    quoted = [match.group(1) or match.group(2) or "" for match in _QUOTED.finditer(source)]
    if quoted and words >= 4 and not _ERROR_START.match(text):
        return not _says(normalise(outside), True, _BAD_REQUEST) and any(
            _says(normalise(part), True, _BAD_REQUEST) for part in quoted
        )
    return False


def _says(text: str, trusted: bool, status: int | None) -> Overflow | None:
    """The overflow that a normalised text states, whoever wrote it."""
    if _NO_BODY.match(text):
        return Overflow(None, None, "input")
    if _OTHER_REASON.search(text):
        return None
    if _MALFORMED.search(text):
        return Overflow(None, None, "input")  # counted in characters: no token limit to learn
    symbols = in_tokens(text, lex(text))
    codes = {symbol.code for symbol in symbols}
    if "C" not in codes and (_YOUR_LIMIT.search(text) or ("T" not in codes and _CHARS.search(text))):
        return None
    if _PERCENT.search(text) and not trusted:
        return None
    numbers = read_numbers(text, symbols)
    blamed = blamed_parameter(text, symbols)
    if blamed and (numbers.limit is None or numbers.output is None or numbers.output >= numbers.limit):
        return None  # the parameter is wrong whatever the history's length
    level = max(surest_relation(text, symbols, trusted), by_numbers(text, symbols, numbers))
    if blamed:
        level = STRONG  # the cap fits, so the history does not
    needed = HINT if status in _REFUSED else WEAK if status is None else STRONG
    if level < needed:
        return None
    return Overflow(numbers.limit, numbers.requested, kind_of(symbols, numbers))


def _tells(quotation: str) -> bool:
    """Whether a quotation would be a refusal, had it come by itself."""
    return _says(normalise(quotation), True, _BAD_REQUEST) is not None


def parse_overflow(error_or_text: object, status: int | None = None) -> Overflow | None:
    """The overflow that an error proves, or None (M17, M18, M21, G33).

    Args:
        error_or_text: the error's text, its decoded body, or the exception (its words, body, response and
            causes are read).
        status: the HTTP status where known; else the one that the error carries. Statuses such as 401, 404 or
            429 are never an overflow; 400, 413 and 422 admit a vague text; 5xx and 200 (an error inside a
            stream) need a clear one.

    Returns:
        The limit and the tokens asked for, where stated, and the kind (see `Overflow`). A stated total is
        preferred to a stated input. At most 20,000 characters of a text are read.
    """
    best: Overflow | None = None
    for source in sources(error_or_text):
        code = status if status is not None else source.status
        if code is not None and 300 <= code < 500 and code not in _REFUSED:
            return None
        text = normalise(own_words(source.text, _tells))
        trusted = source.trusted or status in _REFUSED
        if not source.trusted and _TALK.search(text):
            continue
        if _OTHER_REASON.search(text) and best is None:
            return None
        if not trusted and _is_talk(source.text, text):
            continue
        found = _says(text, trusted, code)
        if found is not None and (best is None or (best.limit is None and found.limit is not None)):
            best = found
    return best


def _count(usage: Mapping[str, Any], *names: str) -> int | None:
    found = (usage.get(name) for name in names)
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool)), None)


def silent_overflow(
    usage: Mapping[str, Any], window: int, finish_reason: str | None, *, sent: int | None = None
) -> Overflow | None:
    """The overflow that came without an error, or None: usage beyond the window, or no room left to answer.

    Args:
        usage: the reply's usage, in the words of OpenAI, Anthropic, Gemini or LangChain's `usage_metadata`.
        window: the window in tokens.
        finish_reason: why the reply ended, in any provider's words.
        sent: our own calibrated count of the request; where given, a reported input under half of it is a
            prompt that the server cut, or that it reports in part: `cut_prompts` tells these apart by what a
            session's reports have shown.
    """
    asked = _count(
        usage, "input_tokens", "prompt_tokens", "promptTokenCount", "prompt_token_count", "prompt_eval_count"
    )
    if asked is None:
        return None
    cached = (_count(usage, "cache_read_input_tokens") or 0) + (
        _count(usage, "cache_creation_input_tokens") or 0
    )
    asked += cached  # Anthropic counts the cached part apart
    output = _count(
        usage,
        "output_tokens",
        "completion_tokens",
        "candidatesTokenCount",
        "candidates_token_count",
        "eval_count",
    )
    reason = (finish_reason or "").lower()
    if asked > window or reason in _FINISHED_BY_WINDOW:
        return Overflow(window, asked, "silent")
    if reason in _FINISHED_BY_LENGTH and not output and asked >= 0.99 * window:
        return Overflow(window, asked, "silent")
    if sent is not None and asked and asked < sent // 2:
        return Overflow(None, sent, "silent")
    return None
