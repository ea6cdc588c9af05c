"""Whether a relation between words and numbers says that the input is beyond the window, and how surely.

`overflow` asks for the text as a whole; here each relation is judged within its own sentence: what is
measured, by which word, against which bound (`overflow_grammar` has the letters).
"""

import re

from headwater.window.overflow_grammar import Symbol
from headwater.window.overflow_numbers import Numbers

STRONG, WEAK, HINT = 3, 2, 1
"""How surely: whatever the status; without a status; only where the status says that the request was bad."""

_IF = re.compile(
    r"(?:\b(?:if|when|whenever|once|unless|until|before|avoid|prevent|in case|after|detects?|handles?)\b"
    r"|如果|若|一旦|避免|防止|以免|当(?!前|天|日))[^.:;。；]{0,80}$"
)
_LESS = re.compile(r"\d\)? - [a-z_]{3,40} ?\(?\d")  # "max_seq_len (8192) - prompt_len (8392)"
# "at most 8192 tokens, your prompt 9000", "9000 tokens in the prompt, limit 8192", and in two sentences.
_SIDE_BY_SIDE = re.compile("L[TKC]*N[IR][TK]*N|NT?I[^N]?LN|I[^NP]{0,4}NT?P?L[^NPO]{0,3}N")
_BUT_YOU = re.compile(r"(?:however|but),? your?\b|[但而]您|但你")


def _judge(symbol: Symbol, left: str, right: str, text: str) -> int:
    """How surely one relation says that the input is beyond the window: 0 (no) to 3 (whatever the status)."""
    code = symbol.code
    foreign = _is_foreign([noun for noun in left if noun in "ZITC"], right)
    output_only = "O" in left and not {"I", "C"} & set(left)
    if foreign or output_only:
        return 0
    if code in "EH":
        return STRONG
    if code in "Yy":
        return STRONG if "C" in left and (code == "Y" or "N" in right[:2]) else 0
    if code == "B":
        if {"I", "C"} & set(left) or "C" in right or "I" in right[:2]:
            return STRONG
        if "T" in left or (right[:1] == "T" and {"N", "I", "L"} & set(right)):
            return WEAK
        return (WEAK if "h" in right else HINT) if "R" in left or right[:1] == "T" else 0
    if code == "M":
        if re.match("[^NPCIL]*O", right):
            return 0  # one parameter measured by another: "budget must be less than max_tokens"
        if {"I", "T"} & set(left) and {"C", "N", "G"} & set(right):
            return STRONG
        return WEAK if "R" in left and "T" in right and "N" in right else 0
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
        # "prompts over 200k tokens cost more" is none.
        return HINT if word.startswith(("is ", "are ")) and right.startswith("NT") else 0
    if word in {"reached", "hit"} and "C" not in bound:
        return STRONG if word == "reached" and {"C", "L"} <= subject and not bound & {"I", "L"} else 0
    if "C" in bound:
        return STRONG
    if {"I", "T", "C"} & subject and "L" in bound:
        return STRONG
    if {"I", "T", "C"} & subject and "N" in bound:
        return STRONG if "T" in subject | bound or "C" in subject else WEAK
    if "L" in bound and {"T", "I"} & bound:
        return STRONG
    if word in {"超出", "超过"} and "C" in subject and not bound:
        return STRONG
    if word == "exceeded":
        if "C" in subject or {"L", "I"} <= subject or {"I", "K"} <= subject or {"I", "T"} <= subject:
            return STRONG
        return WEAK if {"L", "T"} <= subject else 0
    return 0


def surest_relation(text: str, symbols: list[Symbol], trusted: bool) -> int:
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
    return 0 if foreign and surest == HINT else surest


def by_numbers(text: str, symbols: list[Symbol], numbers: Numbers) -> int:
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
        or _SIDE_BY_SIDE.search(stated) is not None
        or ("C" in codes and re.search("[IR]N", stated) is not None)
    )
    if requested is not None and joined and (requested > limit or requested + (numbers.output or 0) > limit):
        return STRONG
    if not {"C", "L"} <= codes or "x" in codes:
        return 0
    return STRONG if "H" in codes or _BUT_YOU.search(text) else HINT


def blamed_parameter(text: str, symbols: list[Symbol]) -> bool:
    """The text opens by calling the output cap itself too large ("'max_tokens' is too large: 9000 …").

    Not where it goes on to subtract the prompt from the window: then the prompt is told to be the cause.
    """
    if _LESS.search(text):
        return False
    codes = "".join(symbol.code for symbol in symbols[:12])
    return re.match(r"[FNR]?O+[^PICT]*[BMXx]", codes) is not None


def kind_of(symbols: list[Symbol], numbers: Numbers) -> str:
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


def in_tokens(text: str, symbols: list[Symbol]) -> list[Symbol]:
    """The symbols, where a body whose bound is in tokens is the request, and no count of bytes."""
    if "LKNT" not in "".join(symbol.code for symbol in symbols):
        return symbols
    bodies = {"body", "payload", "entity"}
    return [s._replace(code="R") if text[s.start : s.end] in bodies else s for s in symbols]
