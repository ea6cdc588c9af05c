"""What a sentence says, without how it is put: near-duplicates have one purport, other facts have others.

Two texts are the same fact when they differ in letter case, punctuation, fillers ("please", 记住), the
verb of duty ("must", 应该), endings, common synonyms, a slip of the pen, or in which half comes first.
A number, an identifier, a name or a negation is never a filler, and a word that is not known as one
is none. So a fact that was told twice may be kept twice, but of two different facts none is lost.
"""

from __future__ import annotations

import re
import unicodedata

from headwater.memory.lexical import stem

VERSION = 1
"""Of the tables below. Whoever changes what any text's purport is raises it: facts are named by it, and those
that older tables have named must go on being found (see `aliases`).
"""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_TOKENS = re.compile(rf"[{_CJK}]|[^\s{_CJK}]+")
_EDGES_LEFT, _EDGES_RIGHT = (
    "\"'`“”‘’「」『』《》()[]{}（）【】,;:!?。、…",
    "\"'`“”‘’「」『』《》()[]{}（）【】,;:.!?。、…",
)
_CLAUSE = re.compile(r"[,;，；。!?、]|\.\s")
_OPENING = re.compile(
    r"\s*(?:(?:in|on|at|for|when|if|before|after|during)\b|[在当]|如果)[^,，]*[,，][^,，]*$", re.I
)

_OPENERS = re.compile(
    r"^\W*(?:(?:please|pls|remember|note|fyi|reminder|important|as a reminder|as a rule"
    r"|keep in mind)\b(?: that\b)?"
    r"|请?(?:务必)?(?:记住|注意|牢记)|请记得|备注|提醒)[\s:：,，]*",
    re.IGNORECASE,
)
_HERE = re.compile(
    r"\b(?:in|for|of) (?:this|our|the) (?:project|repo|repository|code ?base)\b"
    r"|在?(?:本|这个|我们的?)项目[里中]?",
    re.I,
)
_ENGLISH: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"\bcan(?:no|'|’)t\b|\bwon['’]t\b|\bcan not\b", " not "),
        (r"(?<=[a-z])n['’]t\b", " not "),
        (r"(?<=[a-z])['’](?:s|re|ve|ll)\b", " "),
        (
            r"\b(?:is|are|be) (?:strictly )?(?:forbidden|prohibited|banned|disallowed"
            r"|not allowed|not permitted)\b",
            " not ",
        ),
        (r"\b(?:have|has|need|needs|ought|is required|are required) to\b", " "),
        (r"\bprior to\b", " before "),
        (r"(?<=\d)\s*(?:seconds?|secs?|s)\b", " sec "),
        (r"(?<=\d)\s*(?:milliseconds?|msecs?|ms)\b", " msec "),
        (r"(?<=\d)\s*(?:minutes?|mins?)\b", " min "),
        (r"(?<=\d)\s*(?:hours?|hrs?|h)\b", " hour "),
        (r"(\w+) of (?:the |our |an? )?(\w+)", r" \2 \1 "),
    )
)
_CHINESE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (
            r"(?:严格)?(?:禁止|严禁)|不(?:允许|可以|许|得|能|可|要|准)"
            r"|请?(?:切勿|勿|别(?!名|人|的))|绝不|决不|永远不|从不",
            "不",
        ),
        (r"一定要|必须要?|务必|应该|应当|需要|都?得要|请", ""),
        (r"我们|咱们|本公司", ""),
        (r"一律|统一|总是|始终|全都|全部都|均(?!衡)|目前|现在|当前", ""),
        (r"使用|采用|选用|运用|用(?!户|途|例|法|量)", "用"),
        (r"作为|当作|的|了|是|为(?!什么|了)", ""),
        (r"星期|礼拜", "周"),
        (r"每个(?=周|月|天|小时)", "每"),
        (r"周[日天]", "周日"),
        (rf"(?<=[{_CJK}])\s*=\s*(?=\w)", " "),
        (r"端口号", "端口"),
        (r"之([前后])|以([前后])", r"\1\2"),
        (r"在(.+?)之?([前后])", r"\1\2"),
        (r"(?<=\d)\s*秒钟?", "sec"),
        (r"(?<=\d)\s*分钟", "min"),
        (r"(?<=\d)\s*个?小时", "hour"),
        *(
            (f"{word}(?=次|个|天|秒|分钟|小时|周|月|年|倍|台|份|人|位)", digit)
            for word, digit in zip("两二三四五六七八九", "223456789", strict=True)
        ),
    )
)
_DROPPED = frozenset(
    [
        "a",
        "an",
        "the",
        "is",
        "are",
        "am",
        "be",
        "been",
        "being",
        "it",
        "its",
        "this",
        "that",
        "there",
        "we",
        "our",
        "us",
        "you",
        "your",
        "do",
        "does",
        "must",
        "should",
        "shall",
        "please",
        "just",
        "simply",
        "always",
        "also",
        "currently",
        "as",
        "really",
    ]
)
_SYNONYMS = {
    "never": "not",
    "no": "not",
    "avoid": "not",
    "cannot": "not",
    "primary": "main",
    "principal": "main",
    "db": "database",
    "repo": "repository",
    "utilize": "use",
    "utilise": "use",
    "employ": "use",
    "every": "all",
    "each": "all",
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "colour": "color",
    "behaviour": "behavior",
    "docs": "documentation",
}
_JOINING = frozenset(("and", "or", "but", "和", "与", "及", "或", "但", "→", "->"))
_SLIP = 6
"""Letters that a stem must have for its slips to be looked over: short words are too near to each other."""


def purport(text: str) -> str:
    """The purport of a normalised text: equal for texts that say the same.

    >>> purport("Please never commit to main!") == purport("Don't commit to `main`")
    True
    >>> purport("主数据库是 PostgreSQL 15。") == purport("PostgreSQL 15 为主数据库")
    True
    >>> purport("max_retries is 3") == purport("max_retries is 4")
    False
    """
    plain = unicodedata.normalize("NFKC", text)
    said = _without_openers(plain)
    words = _words(said)
    if not words:
        return " ".join(plain.casefold().split())
    if _may_turn(said, words):
        words = min(words[n:] + words[:n] for n in range(len(words)))
    return " ".join(words)


def _without_openers(plain: str) -> str:
    rest = _HERE.sub(" ", plain)
    while (shorter := _OPENERS.sub("", rest, count=1)) != rest:
        rest = shorter
    return rest.lstrip(" ,，:：")


def _words(said: str) -> list[str]:
    rest = said
    for pattern, instead in (*_ENGLISH, *_CHINESE):
        rest = pattern.sub(instead, rest)
    tokens = (_token(token) for token in _TOKENS.findall(rest))
    return [token for token in tokens if token]


def _token(raw: str) -> str:
    # A dot in front belongs to a name (".env"), one at the end to the sentence.
    token = raw.rstrip(_EDGES_RIGHT).lstrip(_EDGES_LEFT)
    if not token or token in ("=", "==", "-", "–", "—"):
        return ""
    if not token.isalpha():
        return token if _case_counts(token) else token.casefold()
    if re.match(f"[{_CJK}]", token):
        return token
    if _case_counts(token):
        return token
    word = token.casefold()
    if word in _DROPPED and token not in ("IT", "US"):
        return ""
    word = _SYNONYMS.get(word, word)
    word = _SYNONYMS.get(stem(word), stem(word))
    return _without_slips(word)


def _case_counts(token: str) -> bool:
    """Whether it reads as an identifier of code, where userId and userid are two."""
    return "_" in token or (token[0].islower() and not token.islower())


def _without_slips(word: str) -> str:
    """A long word by its first, its last and the set of its letters: turned and doubled letters fall out."""
    if len(word) < _SLIP or not word.isascii():
        return word
    return f"{word[0]}{''.join(sorted(set(word)))}{word[-1]}"


def _may_turn(said: str, words: list[str]) -> bool:
    """Whether the halves of the sentence may change places ("X is the main database"): one clause, one
    number, nothing said twice, since otherwise who has what would be lost.
    """
    clauses = len(_CLAUSE.findall(said.strip().rstrip(_EDGES_RIGHT)))
    if clauses > 1 or (clauses == 1 and not _OPENING.match(said)):
        return False
    if _JOINING.intersection(words) or sum(any(c.isdigit() for c in word) for word in words) > 1:
        return False
    counted = [word for word in words if not re.match(f"[{_CJK}]", word) or word in "在用对从把比"]
    return len(set(counted)) == len(counted)
