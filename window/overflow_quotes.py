"""What an error quotes is not what it says: a complaint about a field may show the text that stood in it.

"Invalid value for 'messages[3].content': 'prompt is too long …'" refuses a value, and the value tells of a
window. A relay's "Provider returned error: 'prompt is too long …'" hands a refusal on. The words outside the
quotation tell the one from the other (M21, M22).
"""

import re
from collections.abc import Callable

from headwater.window.overflow_grammar import normalise

_QUOTATION = re.compile(
    r"\"([^\"]{4,2000})\"|“([^”]{4,2000})”|「([^」]{4,2000})」|`([^`]{4,2000})`"
    # An apostrophe within a word ends no quotation.
    r"|(?<!\w)'((?:[^']|(?<=\w)'(?=\w)){4,2000})'(?!\w)"
)
# What a server holds against what the client wrote, whatever its length.
_COMPLAINT = re.compile(
    r"\bmessages?(?:\[\d|\.\d)"
    r"|\bnot (?:a |an )?valid\b|\binvalid (?:value|type|json|utf|literal|content|role|schema|format)\b"
    r"|\b(?:should|must) be (?:a|an|one)\b|\bmust alternate\b"
    r"|\bexpected (?:a|an|one|string|list|object|array|int|str)\b"
    r"|\b(?:unknown|unrecogni[sz]ed|unexpected|unsupported|extra) (?:\w+ )?"
    r"(?:fields?|arguments?|parameters?|keys?|propert(?:y|ies)|keywords?|roles?|values?|inputs?|tokens?)\b"
    r"|\b(?:pars|decod|deseriali[sz]|convert)\w* (?:the |your )?"
    r"(?:tool|function|arguments?|inputs?|requests?|contents?|messages?|body)\b"
    r"|\b(?:filtered|flagged|blocked|moderation|guardrails?|unsafe|harmful|inappropriate|sensitive|prohibited"
    r"|polic(?:y|ies)|jailbreak)\b|\bno matching\b"
    r"|非法|不合法|无效|类型错误|解析失败|不是(?:一个)?(?:有效|合法|数组|字符串|对象|列表)"
    r"|敏感|违规|不安全|不当内容|拦截|审核"
)


def complains(text: str) -> bool:
    """Whether a text holds something against a value, a field or its content."""
    return _COMPLAINT.search(normalise(text)) is not None


def own_words(text: str, tells: Callable[[str], bool]) -> str:
    """The text without the quotations that tell of a refusal, where its own words complain of something else.

    Args:
        text: As it came, quotation marks and all.
        tells: Whether a quotation, by itself, says what is looked for.
    """
    found = [match for match in _QUOTATION.finditer(text) if tells(match[match.lastindex or 0])]
    if not found or not complains(_QUOTATION.sub(" ", text)):
        return text
    pieces, at = [], 0
    for match in found:
        pieces.append(text[at : match.start()])
        at = match.end()
    return " ".join((*pieces, text[at:]))
