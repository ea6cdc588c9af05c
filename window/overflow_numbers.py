"""The numbers of a window refusal: which is the limit, which was asked for, which is the output cap (M18).

A number's role comes from the words around it (`_role`), then from the operators between numbers, which prove
it (`_arithmetic`: "199759 + 8192 > 200000").
"""

import re
from itertools import pairwise
from typing import NamedTuple

from headwater.window.overflow_grammar import Symbol


class Numbers(NamedTuple):
    """The numbers of a refusal by role, in tokens; None where the text does not say."""

    limit: int | None = None
    total: int | None = None
    input: int | None = None
    output: int | None = None

    @property
    def requested(self) -> int | None:
        """The stated total where there is one, else the stated input."""
        return self.input if self.total is None else self.total


# A number's unit or owner stands right after it: "8192 output tokens", "(116 in the messages", "200000 max".
_OWNER = (
    r"\)?\s?(?:个\s?)?(?:tokens?\s?)?(?:,\s?)?(?:(?:of|in|for|from)\s)?(?:the\s|your\s)?"
    r"(?:text\s|requested\s)?"
)
_AFTER = re.compile(
    rf"(?P<output>{_OWNER}(?:output|completion|max_(?:new_|completion_|output_)?tokens|generated|response|输出))"
    r"|(?P<other>[\s-]?(?:characters?|chars?\b|bytes?|[kmg]i?b\b|pixels?|px|seconds?|minutes?|hours?|days?|images?"
    r"|messages|inputs(?! tokens)|tokens? (?:longer|larger|more|over|too many|beyond)\b"
    r"|tools|pages?|requests?|字符|字节|字(?!节)|张|条|页|秒|次|轮|%))"
    r"|(?P<total>\)?\s?(?:tokens?\s)?(?:were |was |are |have been )?"
    r"(?:requested|supplied|sent|provided|given|received"
    r"|submitted|passed))"
    rf"|(?P<input>{_OWNER}(?:inputs?|prompts?|messages|输入)(?![a-z_]))"
    r"|(?P<limit>\)?[\s-]?(?:tokens?[\s-])?(?:(?:maximum|max\b|limit)(?!\s?[=:]|\s(?:is|of|was)\b)"
    r"|context|or less|or fewer|的?上限|的?限制"
    r"|的?上下文))"
)
_BY = re.compile(r"(?:\bby|超出了?|超了)\s?(?:about |around |over |approximately |at least |约|≈|~)?$")
_AS_CODE = re.compile(
    r"(?:\bcodes?|\bstatus|\bhttp|\bid|\bline|\berrno|错误码)[a-z_]{0,8}\s?[:=#(']{0,3}\s?'?$"
    r"|\b(?:try again|retry) in $"
)
_SHARE = re.compile(r"\s?(?:tokens? )?(?:/|of|out of)\s?")
_STATUS_INSIDE = re.compile(r"(?<=[a-z]: )[45]\d\d [a-z]")  # "InvalidArgument: 400 The input ..."
_STATUS_FIRST = re.compile(r"\W{0,3}[1-5]\d\d(?!\d|,\d| tokens)")
_LIMIT_CUES = frozenset("LCXxMGy")


def _role_before(codes: str) -> str:
    """The role that the words before a number give it; the nearest deciding word wins."""
    if re.search("[LC]X[IR]+$", codes):
        return "input"  # "limit exceeded: your prompt has 9000": the bound was named before
    for place in range(len(codes) - 1, -1, -1):
        code = codes[place]
        if code == "O":
            if _LIMIT_CUES & set(codes[:place]) and "I" not in codes:
                return "cap"
            return "total" if "I" in codes[:place] else "output"
        if code == "B" and "O" not in codes[:place]:
            return "input"  # "context too long: 9000 requested"
        if code in _LIMIT_CUES:
            return "cap" if "O" in codes and not set("ITC") & set(codes) else "limit"
        if code in "Qq":
            return "total"
        if code == "W":
            codes = codes[place + 1 :]
            break
    if "O" in codes and "I" not in codes:
        return "output"
    return "input" if set("ITCR") & set(codes) else ""


def _role(after: str | None, words: str) -> str:
    """The role of a number from the word after it and the words before."""
    if after in {"input", "output"}:
        bound = next((code for code in reversed(words) if code in "LMQqX"), "")
        if bound and bound in "LM":
            return "limit" if after == "input" else "cap"  # "at most 4096 completion tokens"
    return after or _role_before(words)


def _roles(text: str, symbols: list[Symbol]) -> list[tuple[str, Symbol, str]]:
    """(role, number, words since the last number or sentence) for every number, by its words alone."""
    found: list[tuple[str, Symbol, str]] = []
    words = ""
    owned = 0  # up to where the words belong to the number before them
    last: Symbol | None = None
    for symbol in symbols:
        if symbol.code == "P":
            words = ""
        if symbol.code != "N":
            if symbol.start >= owned:
                words += symbol.code
            last = symbol
            continue
        before = text[max(0, symbol.start - 40) : symbol.start]
        after = _AFTER.match(text, symbol.end)
        owned = after.end() if after and after.lastgroup == "limit" else 0
        if (
            (symbol.start < 4 and _STATUS_FIRST.match(text))
            or (_BY.search(before) and not text.startswith("的", symbol.end + 1))
            or _AS_CODE.search(before)
            or (400 <= symbol.value < 600 and before.endswith("error ("))
            or _STATUS_INSIDE.match(text, symbol.start)
            or symbol.value == 0
        ):
            role = ""
        else:
            listed = (
                last is not None and last.code == "I" and text[: last.start].rstrip()[-1:] in {":", ",", "("}
            )
            role = (
                "input" if listed and words[-1:] == "I" else _role(after.lastgroup if after else None, words)
            )
        found.append((role, symbol, words))
        words = ""
    return found


def _arithmetic(text: str, numbers: list[tuple[str, Symbol, str]]) -> list[tuple[str, Symbol, str]]:
    """Roles that operators between numbers prove: a + b > c, a > b - c, a + b = c, a > b."""
    out = list(numbers)
    gaps = [text[a[1].end : b[1].start] for a, b in pairwise(out)]
    signs = ["".join(re.findall(r"(?<![a-z])[+\-=>](?![a-z])", gap)) if len(gap) < 32 else "" for gap in gaps]

    def give(at: int, *roles: str) -> None:
        for offset, role in enumerate(roles):
            out[at + offset] = (role, *out[at + offset][1:])

    for at, gap in enumerate(gaps):
        if _SHARE.fullmatch(gap):
            give(at, "input", "limit")
    for at, sign in enumerate(signs):
        following = signs[at + 1] if at + 1 < len(signs) else ""
        if sign == "+" and following in {">", "="} and (at + 2 < len(out)):
            give(at, "input", "output", "limit" if following == ">" else "total")
        elif sign == ">" and following == "-":
            give(at, "output", "limit", "input")
        elif (
            sign in {">", ">="}
            and (at == 0 or signs[at - 1] not in {"+"})
            and out[at][0] not in {"output", "cap"}
        ):
            give(at, out[at][0] if out[at][0] == "total" else "input", "limit")
    return out


def read_numbers(text: str, symbols: list[Symbol]) -> Numbers:
    """The limit, total, input and output that a normalised text states, in tokens (M18)."""
    numbers = _arithmetic(text, _roles(text, symbols))
    # "a context of 150000 tokens exceeds the limit of 128000": the first is what was asked.
    for at, ((role, _, words), nxt) in enumerate(pairwise(numbers)):
        tail = nxt[2].rpartition("X")[2]
        if role != "limit" or nxt[0] != "limit":
            continue
        larger = numbers[at][1].value > nxt[1].value
        if larger and "X" in words and "L" in nxt[2] and not set("CXGM") & set(nxt[2]):
            numbers[at] = (
                "input",
                *numbers[at][1:],
            )  # "exceeds the context window: 131900 tokens, limit 128000"
            continue
        if "X" in nxt[2] and {"R", "I"} & set(tail) and not {"L", "C"} & set(tail):
            numbers[at + 1] = ("total", *nxt[1:])  # "a window of 32768 exceeded by a request of 35000"
        elif ("X" in nxt[2] or ("x" in nxt[2] and set("ITR") & set(words))) and not set("LXxM") & set(words):
            numbers[at] = ("input", *numbers[at][1:])
    if not any(symbol.code == "T" for symbol in symbols) and len(numbers) == 1:
        role, number, words = numbers[0]
        bare = text[number.start - 1 : number.start] == "(" and number.value < 10_000 and "K" not in words
        if role == "limit" and bare:
            return Numbers()  # "exceeds limit (2013)": a provider's error code, not a size
    picked: dict[str, int] = {}
    for wanted in ("total", "input", "output"):
        for role, number, _ in numbers:
            if role == wanted:
                picked.setdefault(wanted, number.value)
    limits = [(number.value, "C" in words) for role, number, words in numbers if role == "limit"]
    window = next((value for value, named in limits if named), limits[0][0] if limits else None)
    return Numbers(window, picked.get("total"), picked.get("input"), picked.get("output"))
