"""The grammar of a window refusal: what is too long, by which relation, beyond which bound, in which numbers.

Providers word the refusal in a hundred ways, English and Chinese, but say the same few things. `lex` turns a
text into a short string of symbols (one letter a kind); `judge` reads the relation between them; `read_numbers`
gives every number its role. All three are linear in the text and know no provider by name (M18, M21).
"""

import re
import unicodedata
from typing import NamedTuple

_SUFFIX = {
    "k": 1_000,
    "m": 1_000_000,
    "thousand": 1_000,
    "million": 1_000_000,
    "千": 1_000,
    "万": 10_000,
    "百万": 1_000_000,
}

_NUMBER = (
    r"(?<![a-z0-9_.\-/#$])"
    r"(?:\d{1,3}(?:[,_' ]\d{3}){1,4}(?!\d)|\d{1,3}(?:\.\d{3}){1,4}(?!\d)|\d{1,12}(?:\.\d{1,2})?(?!\d))"
    r"(?:\s?(?:thousand|million|百万|万|千)|\s?[km](?![a-z]))?"
    r"(?!\.\d|-\d|(?!tok|byte|char|kb|mb|gb|px)[a-z_])"
)

# One letter a kind. Order decides: the first alternative that matches at a place wins, so the longer or
# narrower word comes before the wider one. "~" stands for any joint between words (blank, _ or -).
_LEXICON: tuple[tuple[str, str, str], ...] = (
    ("N", "", _NUMBER),
    ("G", "", r"\[\s?\d{1,3}\s?,\s?"),  # the lower end of "[1, 8192]"
    ("P", "", r"[.!?](?=\s|$)|[。！？；\n]|;(?=\s|$)"),
    ("F", "", r"[a-z_]{1,40}\[\d{1,6}\][\w.\[\]]{0,80}|messages\.\d[\w.]{0,80}"),
    ("F", "en", r"chat~completions?|(?:error|api|http|provider|server|invalid)~response|invalid~(?:arguments?|parameters?)"),
    # Foreign subjects: things that can be too long without the window having anything to do with it.
    ("Z", "", r"\$\.[a-z_]{1,40}|(?<=\d) messages"),
    (
        "Z",
        "en",
        r"input~should~be~(?:less|greater|a|one)|encoder~prompt|requested~context~size"
        r"|(?:number|count)~of~(?:messages|tools|functions|images|files|documents|turns|requests|items|texts"
        r"|inputs|stop~sequences|pages)"
        r"|too~many~(?:messages|tools|functions|images|files|documents|requests|turns|items|inputs|pages"
        r"|connections)"
        r"|(?:access|auth|bearer|refresh|session|csrf|api|jwt|id|device)~tokens?|(?:image|video|audio|pdf|file)~inputs?|string|array|images?|files?|ur[li]"
        r"|headers?|descriptions?|schema|fields?|filename|title|attachments?|audio|video|pdf|pages?|payload|body"
        r"|bytes?|batch|entity|upload|metadata|command|arguments?|property|names?|password|username|comment"
        r"|memory|disk|cache|cookie|retention|characters|chars|pixels?|dimensions?|seconds|duration|nesting|depth",
    ),
    (
        "Z",
        "",
        r"(?:图片|图像|文件|附件|标题|名称|用户名|昵称|描述|备注|评论|密码|字段|短信)的?(?:输入|内容|长度)*|工具数|消息数|条数|轮数|轮次|链接|音频"
        r"|视频|字数|字符|字节|请求体|请求数|访问量|业务量|并发|内存|显存",
    ),
    ("T", "en", r"max_total_tokens"),
    (
        "O",
        "en",
        r"max_tokens?|max~(?:new|completion|output|generation|generated)~tokens?|outputs?|completions?|generated"
        r"|generation|generate|responses?|reply|answer",
    ),
    ("O", "", r"输出|生成|回复|补全|回答"),
    (
        "H",
        "en",
        r"(?:reduce|shorten|decrease)~(?:the~|your~)?(?:total~)?(?:length|size|number)~of~(?:tokens~in~)?"
        r"(?:the~|your~|either~|all~)?(?:input~|chat~)?(?:messages?|prompts?|inputs?|one|conversation|context)",
    ),
    ("H", "", r"请?(?:压缩|清理|缩短|精简|减少|裁剪)(?:一下)?(?:您的|你的)?(?:上下文|对话历史|历史消息)"),
    ("h", "", r"请?(?:缩短|精简|减少|删减|裁剪|清理|压缩)"),
    (
        "M",
        "en",
        r"(?:must|should|can|may|needs?~to)~(?:be~|have~)?(?:strictly~)?(?:less|fewer|smaller|lower|shorter)~than"
        r"(?:~or~equal~to)?"
        r"|(?:must|should|can|may)(?:~not|not|n't)~(?:exceed|be~(?:longer|larger|greater|more|bigger)~than)"
        r"|(?:must|should)~be~(?:within|in|at~most|between|under|below)|must~have~at~most"
        r"|no~(?:more|longer|larger|greater)~than",
    ),
    (
        "M",
        "",
        r"<=|≤|(?:should|must)\s+be\s+(?=\[)|(?:不能|不得|不可|不应|不要|不允许)超[过出]|不超过"
        r"|(?:必须|需要?|须|应该?|要)?(?:小于|少于|低于)(?:或?等于)?|应[在为]|需[在为]|范围",
    ),
    (
        "B",
        "en",
        r"(?:too|overly)~(?:long|large|big|lengthy|many)|oversized?|overlong|overflows|overflowed"
        r"|(?:not|cannot|can't|won't|doesn't|don't)~fit",
    ),
    ("B", "", r"过长|过大|过多|太长|太大|太多|超长|超限|超标|溢出"),
    ("X", "en", r"(?<!to )exceed(?:s|ed|ing)?|surpass(?:es|ed)?|(?:reached|hit)(?=\s(?:the|its|maximum|max)\s)"),
    ("X", "", r"超过|超出|大于|多于|高于|长于|(?<=[\d)s])\s>=?\s(?=[\da-z])|(?<=\d)>=?(?=\d)"),
    (
        "x",
        "en",
        r"(?:is|are|was|be|been|were) (?:longer|larger|greater|bigger|higher)~than|more~than|(?:over|above|beyond)(?=\s(?:the|its|model|max|limit|context|\d))",
    ),
    ("E", "en", r"context_(?:overflow|too_long|window_overflow)(?:_error)?"),
    (
        "C",
        "en",
        r"(?:max~)?context~(?:windows?|lengths?|sizes?|limits?|budget|capacity)|context|max~model~len(?:gth)?"
        r"|max~seq(?:uence)?~len(?:gth)?|n_ctx|num_ctx|model~length|sequence~length",
    ),
    ("C", "", r"上下文(?:长度|窗口|大小)?|窗口(?:长度|大小)"),
    (
        "Q",
        "en",
        r"requested|requesting|resulted~in|contains?|containing|received|got|given|provided|supplied|passed|sent"
        r"|submitted|keep~the~first|n_prompt_tokens",
    ),
    ("Q", "", r"请求了|包含|收到|提交了|传入了?|输入了|实际(?:请求|输入|传入)"),
    ("q", "en", r"total(?:s|ed|ing)?(?:~of)?|current(?:ly)?|actual(?:ly)?|estimated|counted"),
    ("q", "", r"实际|当前|总计|合计|共计|共|现有"),
    (
        "L",
        "en",
        r"limits?|limited|maximum|maximal|max|allowed|allowable|permitted|supports?|supported|capacity"
        r"|ceiling|(?:below|under)(?=\s\d)|upper~bound|at~most|up~to|configured",
    ),
    ("L", "", r"上限|限制|最大|最长|最多|最高|支持|允许|限长"),
    (
        "I",
        "en",
        r"prompts?|inputs?|messages|conversations?|dialog(?:ue)?s?|(?:chat|message)~history|history|transcript",
    ),
    ("I", "", r"输入|提示词|提示语|对话|会话|聊天记录|历史(?:消息|记录)?"),
    ("R", "en", r"requests?|texts?|contents?|message|documents?|quer(?:y|ies)"),
    ("R", "", r"请求|内容|文本|消息|问题|文档"),
    ("T", "en", r"tokens?|toks?"),
    ("T", "", r"令牌|词元"),
    ("K", "en", r"lengths?|sizes?|counts?|number~of"),
    ("K", "", r"长度|数量|大小|总数"),
    ("W", "en", r"however|but|whereas|while|instead"),
    ("W", "", r"但是?|然而|而|却"),
    ("Y", "en", r"not~enough|not~large~enough"),
    ("y", "en", r"only"),
    ("y", "", r"仅|只有"),
)


def _compile() -> tuple[re.Pattern[str], dict[str, str]]:
    parts: list[str] = []
    codes: dict[str, str] = {}
    for index, (code, kind, pattern) in enumerate(_LEXICON):
        body = pattern.replace("~", r"[\s_\-]{1,3}")
        if kind == "en":
            body = rf"(?<![a-z])(?:{body})(?![a-z])"
        parts.append(f"(?P<g{index}>{body})")
        codes[f"g{index}"] = code
    return re.compile("|".join(parts)), codes


_LEXER, _CODES = _compile()
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SPACES = re.compile(r"[^\S\n]+")
_LOOSE = str.maketrans(
    {"`": "", '"': " ", "“": " ", "”": " ", "’": "'", "‘": "'", "\\": " ", "*": "", "\r": "\n"}
)
_GLUED_NUMBER = re.compile(r"(?P<digits>[\d,_' .]*\d)\s?(?P<suffix>thousand|million|百万|万|千|k|m)?")


class Symbol(NamedTuple):
    """One word or number of the grammar: its kind (a letter), its place, and a number's value."""

    code: str
    start: int
    end: int
    value: int = 0


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


def normalise(text: str) -> str:
    """One spelling: full-width to ASCII (NFKC), camelCase to snake_case, lower case, no quotes or backticks."""
    spelled = unicodedata.normalize("NFKC", text).replace("\\n", "\n").translate(_LOOSE)
    return _SPACES.sub(" ", _CAMEL.sub("_", spelled)).lower()


def _value(text: str) -> int:
    found = _GLUED_NUMBER.match(text)
    if found is None:
        return 0
    digits, suffix = found["digits"].strip(), found["suffix"]
    plain = re.sub(r"[,_' ]", "", digits)
    if suffix:
        return round(float(plain) * _SUFFIX[suffix]) if plain.count(".") < 2 else 0
    if "." in plain and all(len(group) == 3 for group in plain.split(".")[1:]):
        return int(plain.replace(".", ""))  # 128.000 tokens: a token is not divisible
    return int(float(plain))


def lex(text: str) -> list[Symbol]:
    """The symbols of a normalised text, in order."""
    symbols: list[Symbol] = []
    for match in _LEXER.finditer(text):
        code = _CODES[match.lastgroup or ""]
        value = _value(match.group()) if code == "N" else 0
        symbols.append(Symbol(code, match.start(), match.end(), value))
    return symbols


# A number's unit or owner stands right after it: "8192 output tokens", "(116 in the messages", "200000 maximum".
_OWNER = r"\)?\s?(?:个\s?)?(?:tokens?\s?)?(?:,\s?)?(?:(?:of|in|for|from)\s)?(?:the\s|your\s)?(?:text\s|requested\s)?"
_AFTER = re.compile(
    rf"(?P<output>{_OWNER}(?:output|completion|max_(?:new_|completion_|output_)?tokens|generated|response|输出))"
    r"|(?P<other>[\s-]?(?:characters?|chars?\b|bytes?|[kmg]i?b\b|pixels?|px|seconds?|minutes?|hours?|days?|images?"
    r"|messages|tools|pages?|requests?|字符|字节|字(?!节)|张|条|页|秒|次|轮|%))"
    r"|(?P<total>\)?\s?(?:tokens?\s)?(?:were |was |are |have been )?(?:requested|supplied|sent|provided|given|received"
    r"|submitted|passed))"
    rf"|(?P<input>{_OWNER}(?:inputs?|prompts?|messages|输入)(?![a-z]))"
    r"|(?P<limit>\)?[\s-]?(?:tokens?[\s-])?(?:maximum|max\b|limit|context|or less|or fewer|的?上限|的?限制))"
)
_BY = re.compile(r"(?:\bby|超出了?|超了)\s?(?:about |around |over |approximately |at least |约|≈|~)?$")
_AS_CODE = re.compile(
    r"(?:\bcodes?|\bstatus|\bhttp|\bid|\bline|\berrno|错误码)[a-z_]{0,8}\s?[:=#(']{0,3}\s?'?$|\b(?:try again|retry) in $"
)
_STATUS_FIRST = re.compile(r"\W{0,3}[1-5]\d\d(?!\d|,\d| tokens)")
_LIMIT_CUES, _NEUTRAL = frozenset("LCXxMGy"), frozenset("ITRKFBHhZE")


def _role_before(codes: str) -> str:
    """The role that the words before a number give it; the nearest deciding word wins."""
    for place in range(len(codes) - 1, -1, -1):
        code = codes[place]
        if code == "O":
            if _LIMIT_CUES & set(codes[:place]) and "I" not in codes:
                return "cap"
            return "total" if "I" in codes[:place] else "output"
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
    """(role, number, words before it since the last number or sentence) for every number, by its words alone."""
    found: list[tuple[str, Symbol, str]] = []
    words = ""
    last: Symbol | None = None
    for symbol in symbols:
        if symbol.code == "P":
            words = ""
        if symbol.code != "N":
            words += symbol.code
            last = symbol
            continue
        before = text[max(0, symbol.start - 40) : symbol.start]
        after = _AFTER.match(text, symbol.end)
        if (symbol.start < 4 and _STATUS_FIRST.match(text)) or _BY.search(before) or _AS_CODE.search(before) or symbol.value == 0:
            role = ""
        else:
            listed = last is not None and last.code == "I" and text[: last.start].rstrip()[-1:] in {":", ",", "("}
            role = "input" if listed and words[-1:] == "I" else _role(after.lastgroup if after else None, words)
        found.append((role, symbol, words))
        words = ""
    return found


def _arithmetic(text: str, numbers: list[tuple[str, Symbol, str]]) -> list[tuple[str, Symbol, str]]:
    """Roles that operators between numbers prove: a + b > c, a > b - c, a + b = c, a > b."""
    out = list(numbers)
    gaps = [text[a[1].end : b[1].start] for a, b in zip(out, out[1:], strict=False)]
    signs = ["".join(re.findall(r"(?<![a-z])[+\-=>](?![a-z])", gap)) if len(gap) < 32 else "" for gap in gaps]

    def give(at: int, *roles: str) -> None:
        for offset, role in enumerate(roles):
            out[at + offset] = (role, *out[at + offset][1:])

    for at, sign in enumerate(signs):
        following = signs[at + 1] if at + 1 < len(signs) else ""
        if sign == "+" and following in {">", "="} and (at + 2 < len(out)):
            give(at, "input", "output", "limit" if following == ">" else "total")
        elif sign == ">" and following == "-":
            give(at, "output", "limit", "input")
        elif sign == ">" and (at == 0 or signs[at - 1] not in {"+"}) and out[at][0] not in {"output", "cap"}:
            give(at, out[at][0] if out[at][0] == "total" else "input", "limit")
    return out


def read_numbers(text: str, symbols: list[Symbol]) -> Numbers:
    """The limit, total, input and output that a normalised text states, in tokens (M18)."""
    numbers = _arithmetic(text, _roles(text, symbols))
    # "a context of 150000 tokens exceeds the limit of 128000": the first is what was asked, though it says context.
    for at, ((role, _, words), nxt) in enumerate(zip(numbers, numbers[1:], strict=False)):
        tail = nxt[2].rpartition("X")[2]
        if role == "limit" and nxt[0] == "limit" and "X" in nxt[2] and {"R", "I"} & set(tail) and not {"L", "C"} & set(tail):
            numbers[at + 1] = ("total", *nxt[1:])  # "a window of 32768 exceeded by a request of 35000"
            continue
        exceeds = "X" in nxt[2] or ("x" in nxt[2] and set("ITR") & set(words))
        if role == "limit" and nxt[0] == "limit" and exceeds and not set("LXxM") & set(words):
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
