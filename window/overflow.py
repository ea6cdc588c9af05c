"""Tell a window refusal from every other error, and read what it teaches.

Only the provider's refusal proves an overflow (M17). `parse_overflow` recognises it by its text, in
English and Chinese, and reads the true limit and the size asked for; the status only helps to say no (M21).
`silent_overflow` finds the overflow that no error announces.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from headwater.window.overflow_grammar import Symbol, lex, normalise
from headwater.window.overflow_numbers import Numbers, read_numbers
from headwater.window.overflow_quotes import own_words
from headwater.window.overflow_source import sources

_STRONG, _WEAK, _HINT = 3, 2, 1
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
_IF = re.compile(
    r"(?:\b(?:if|when|whenever|once|unless|until|before|avoid|prevent|in case|after|detects?|handles?)\b"
    r"|如果|若|一旦|避免|防止|以免|当(?!前|天|日))[^.:;。；]{0,80}$"
)
_ERROR_START = re.compile(
    r"\W{0,4}(?:error|exception|traceback|http|status"
    r"|\d{3}\b|data:|event:|[\w.]{0,60}(?:error|exception)\b)"
)
_LESS = re.compile(r"\d\)? - [a-z_]{3,40} ?\(?\d")  # "max_seq_len (8192) - prompt_len (8392)"
_BUT_YOU = re.compile(r"(?:however|but),? your?\b|[但而]您|但你")
_QUOTED = re.compile(r"[\"“「]([^\"”」\n]{0,400})[\"”」]|`([^`\n]{0,400})`")

_FINISHED_BY_WINDOW = frozenset({"model_context_window_exceeded", "context_window_exceeded"})
_FINISHED_BY_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens"})


def _judge(symbol: Symbol, left: str, right: str, text: str) -> int:
    """How surely one relation says that the input is beyond the window: 0 (no) to 3 (whatever the status)."""
    code = symbol.code
    foreign = _is_foreign([noun for noun in left if noun in "ZITC"], right)
    output_only = "O" in left and not {"I", "C"} & set(left)
    if foreign or output_only:
        return 0
    if code in "EH":
        return _STRONG
    if code in "Yy":
        return _STRONG if "C" in left and (code == "Y" or "N" in right[:2]) else 0
    if code == "B":
        if {"I", "C"} & set(left) or "C" in right or "I" in right[:2]:
            return _STRONG
        if "T" in left or (right[:1] == "T" and {"N", "I", "L"} & set(right)):
            return _WEAK
        return (_WEAK if "h" in right else _HINT) if "R" in left or right[:1] == "T" else 0
    if code == "M":
        if re.match("[^NPCIL]*O", right):
            return 0  # one parameter measured by another: "budget must be less than max_tokens"
        if {"I", "T"} & set(left) and {"C", "N", "G"} & set(right):
            return _STRONG
        return _WEAK if "R" in left and "T" in right and "N" in right else 0
    return _judge_exceeding(code, left, right, text[symbol.start : symbol.end])


def _is_foreign(nouns: list[str], right: str) -> bool:
    """Whether what is too long is no part of the window: a file, a name, a list, whatever its tokens."""
    if "Z" not in nouns or "C" in nouns or "C" in right:
        return False
    tokens_of_it = "T" in nouns and nouns.index("T") < nouns.index("Z")  # "tokens of image and text"
    return not tokens_of_it and (nouns[-1] == "Z" or "I" not in nouns)


def _judge_exceeding(code: str, left: str, right: str, word: str) -> int:
    subject, bound = set(left), set(right)
    if code == "x" and not {"I", "T", "R"} & subject:
        return 0  # a configured window larger than the model's: not about this request
    if code == "x" and not {"C", "L"} & bound and "N" not in subject:
        return 0  # "prompts over 200k tokens cost more"
    if word in {"reached", "hit"} and "C" not in bound:
        return _STRONG if word == "reached" and {"C", "L"} <= subject and not bound & {"I", "L"} else 0
    if "C" in bound:
        return _STRONG
    if {"I", "T", "C"} & subject and "L" in bound:
        return _STRONG
    if {"I", "T", "C"} & subject and "N" in bound:
        return _STRONG if "T" in subject | bound or "C" in subject else _WEAK
    if "L" in bound and {"T", "I"} & bound:
        return _STRONG
    if word in {"超出", "超过"} and "C" in subject and not bound:
        return _STRONG
    if word == "exceeded":
        if "C" in subject or {"L", "I"} <= subject or {"I", "K"} <= subject or {"I", "T"} <= subject:
            return _STRONG
        return _WEAK if {"L", "T"} <= subject else 0
    return 0


def _surest_relation(text: str, symbols: list[Symbol], trusted: bool) -> int:
    """The surest relation in a text, each read within its own sentence."""
    surest, start, foreign = 0, 0, False
    ends = [at for at, symbol in enumerate(symbols) if symbol.code == "P"] + [len(symbols)]
    for end in ends:
        sentence = symbols[start:end]
        codes = "".join(symbol.code for symbol in sentence)
        opens = symbols[start - 1].end if start else 0
        for at, symbol in enumerate(sentence):
            if symbol.code not in "XxBMHEYy":
                continue
            right = codes[at + 1 : at + 15]
            if symbol.code in "Xx":
                right = right.partition("W")[0]  # what stands behind "while" or "but" is no bound of it
            left = codes[max(0, at - 14) : at]
            level = _judge(symbol, left, right, text)
            foreign = foreign or (symbol.code == "B" and left[-1:] == "Z")
            before = text[max(opens, symbol.start - 160) : symbol.start]
            if level > surest and (trusted or not _IF.search(before)):
                surest = level
        start = end + 1
    # "Request entity too large", and a code that says "request_too_large" again: still the entity.
    return 0 if foreign and surest == _HINT else surest


def _by_numbers(text: str, symbols: list[Symbol], numbers: Numbers) -> int:
    """A bound and a request stated side by side: the arithmetic is the relation."""
    stated = "".join(symbol.code for symbol in symbols)
    codes = set(stated)
    limit, requested = numbers.limit, numbers.requested
    sized = {"T", "C"} & codes or {"K", "H"} <= codes or "qI" in stated
    if limit is None or not sized or ("Z" in codes and not {"I", "C"} & codes):
        return 0
    joined = (
        bool({"W", "X", "x", "B", "M", "H", "Q"} & codes)
        or re.search("[IR]q|q[IR]", stated) is not None
        or _LESS.search(text) is not None
        or re.search("L[TKC]*N[IR][TK]*N|NT?I[^N]?LN", stated) is not None
        or ("C" in codes and re.search("[IR]N", stated) is not None)
    )
    if requested is not None and joined and (requested > limit or requested + (numbers.output or 0) > limit):
        return _STRONG
    if not {"C", "L"} <= codes or "x" in codes:
        return 0
    return _STRONG if "H" in codes or _BUT_YOU.search(text) else _HINT


def _blamed_parameter(symbols: list[Symbol]) -> bool:
    """The text opens by calling the output cap itself too large ("'max_tokens' is too large: 9000 …")."""
    codes = "".join(symbol.code for symbol in symbols[:12])
    return re.match(r"[FNR]?O+[^PICT]*[BMXx]", codes) is not None


def _kind(symbols: list[Symbol], numbers: Numbers) -> str:
    """Which side must give: where half the window is free, lowering the cap is enough (case 57)."""
    limit, asked, output = numbers.limit, numbers.input, numbers.output
    if asked is None and output is not None and numbers.total is not None:
        asked = max(0, numbers.total - output)
    if limit is not None and output is not None:
        if output >= limit or (asked is not None and asked <= limit // 2 and asked + output >= limit):
            return "output"
        return "combined" if output else "input"
    subject = ""
    for code in (symbol.code for symbol in symbols):
        if code in "XxBM" and "I" in subject and "O" in subject.partition("I")[2]:
            return "combined"
        subject = "" if code in "PXxBM" else (subject + code)[-40:]
    return "input"


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


def _in_tokens(text: str, symbols: list[Symbol]) -> list[Symbol]:
    """The symbols, where a body whose bound is in tokens is the request, and no count of bytes."""
    if "LKNT" not in "".join(symbol.code for symbol in symbols):
        return symbols
    bodies = {"body", "payload", "entity"}
    return [s._replace(code="R") if text[s.start : s.end] in bodies else s for s in symbols]


def _says(text: str, trusted: bool, status: int | None) -> Overflow | None:
    """The overflow that a normalised text states, whoever wrote it."""
    if _NO_BODY.match(text):
        return Overflow(None, None, "input")
    if _OTHER_REASON.search(text):
        return None
    if _MALFORMED.search(text):
        return Overflow(None, None, "input")  # counted in characters: no token limit to learn
    symbols = _in_tokens(text, lex(text))
    codes = {symbol.code for symbol in symbols}
    if "C" not in codes and (_YOUR_LIMIT.search(text) or ("T" not in codes and _CHARS.search(text))):
        return None
    if _PERCENT.search(text) and not trusted:
        return None
    numbers = read_numbers(text, symbols)
    blamed = _blamed_parameter(symbols) and not _LESS.search(text)
    if blamed and (numbers.limit is None or numbers.output is None or numbers.output >= numbers.limit):
        return None  # the parameter is wrong whatever the history's length
    level = max(_surest_relation(text, symbols, trusted), _by_numbers(text, symbols, numbers))
    if blamed:
        level = _STRONG  # the cap fits, so the history does not
    needed = _HINT if status in _REFUSED else _WEAK if status is None else _STRONG
    if level < needed:
        return None
    return Overflow(numbers.limit, numbers.requested, _kind(symbols, numbers))


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
