"""What a sentence is worth, read from its words: cues in English and Chinese, no model.

Used by the digest (which sentences to keep), the audit (which names a summary must carry) and the pins (which
of a user's sentences stay in sight). Every pattern starts at a word boundary and repeats without overlap, so
that cost is linear in the text.
"""

import re
from functools import cached_property, lru_cache
from typing import Literal

from headwater.window.prose import MAX_CHARS, prose_lines, sentences

PinKind = Literal["constraint", "exclusion", "decision", "preference"]

MAX_PINS = 12
"""Pins taken from one message: the first and the last six."""

MAX_WORDS, MAX_HAN = 60, 120
"""A longer sentence is a document, not a rule."""


SAMPLE_CHARS = 10_000
"""Characters at each end of a longer text by which its language is judged."""


_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_LOWER_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_CHINESE = "中"


class Cue:
    """A pattern, and the English words of which a sentence must have one before it is worth trying.

    Without that gate the patterns would take ten times as long. Chinese sentences pass it always.
    """

    def __init__(self, words: str, pattern: str) -> None:
        self.words: frozenset[str] = frozenset([*words.split(), _CHINESE])
        self._source = pattern

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when it is first tried: it would be a good part of the import time."""
        return re.compile(self._source, re.IGNORECASE | re.ASCII)

    def found(self, sentence: str, hints: frozenset[str] | None = None) -> bool:
        """Whether a sentence has the cue; ``hints`` are its words, if they are known already."""
        if self.words.isdisjoint(hints or _hints(sentence)):
            return False
        return self.pattern.search(sentence) is not None


@lru_cache(maxsize=64)
def _hints(sentence: str) -> frozenset[str]:
    return frozenset([*_LOWER_WORD.findall(sentence.lower()), *([_CHINESE] if _HAN.search(sentence) else [])])


CONSTRAINT = Cue(
    "must mustn't do don't dont never always only may should shouldn't sure ensure avoid keep circumstance"
    " circumstances forbidden allowed required mandatory limits than no",
    r"(?<!\bit )(?<!\bthis )(?<!\bthat )(?<!\bthere )(?<!\bthey )\bmust(?:n't| not)?\b(?! have been"
    r"| be an? )"
    r"|(?:^|[,;:.(] ?|\b(?:please|and|but|so|or|then|you|should|must|also|now on) )"
    r"(?:do not|don'?t|never|always|only(?= \w+))\b(?! (?:know|think|worry|mind|understand|remember|see why"
    r"|get it|forget to|hesitate|really|sure|if|when|the\b))"
    r"|\b(?:I|we) (?:do not|don'?t) want\b|\b(?:you|we) (?:may not|should(?:n'?t| not))\b"
    r"|\b(?:use|change|touch|edit|modify|run|read) only\b"
    r"|\bonly (?:use|change|touch|edit|modify|run|write to|support|return|accept|call)\b"
    r"|(?:^|[,;] ?|\b(?:please|and) )(?:make sure|ensure|avoid|keep)\b|\b(?:under|in) no circumstances?\b"
    r"|\bis (?:forbidden|not allowed|required|mandatory|off[- ]limits)\b|\bno more than \d"
    r"|^no (?:new|more|other|external|third)\b"
    r"|必须|务必|禁止|严禁|不得(?!不|已)|不许|不准|一定要|(?<!要)不要(?!紧|求|是)|不可以|切勿|请勿"
    r"|只能|(?<!能)不能(?!启动|运行|工作|连|访问|正常|打开|编译|登录|用了|用$|再现|复现|够|不)"
    r"|只用|仅用|仅限|只允许|仅使用|只改|确保"
    r"|(?<![特分区级类性差个识辨判告鉴永久诀])别(?![的人处名墅针扭致说提看担]|忘了?告诉)",
)
EXCLUSION = Cue(
    "ruled excluded rejected tried help work fix change effect difference cause problem issue culprit"
    " option table"
    " against give",
    r"\b(?:ruled out|already tried)\b|\b(?:is|was|were|are|been|already|I|we|they|user) (?:excluded"
    r"|rejected)\b|\b(?:I|we)(?:'ve| have)? tried\b"
    r"|\b(?:did not|didn'?t) (?:help|work|fix|change anything)\b|\b(?:had|has|with|made) no (?:effect"
    r"|difference)\b"
    r"|\b(?:is|was)(?: not|n't) the (?:cause|problem|issue|culprit)\b|\bnot an option\b|\boff the table\b"
    r"|\bdecided against\b|\bwon'?t work\b|\bgive up on\b"
    r"|已经?排除|排除了|排除掉|试过|尝试过|无效(?!的|参数|请求|字符|输入|值|令牌)|没有?效果|没用(?!过"
    r"|到)|不管用"
    r"|不是.{0,12}(?:原因|问题|根因)|否决|不考虑|行不通|放弃了?方案|不起作用",
)
DECISION = Cue(
    "go going went decided agreed decision let's lets we'll will i'll should choose chose chosen pick"
    " picked approve"
    " approved confirm confirmed accept accepted settled switch switched switching stick sticks",
    r"\b(?:go(?:ing)?|went) (?:with|for) (?!a |an )|\b(?:we|I|user|they|team)(?:'ve| have"
    r"| has)? (?:just )?decided\b"
    r"|\b(?:decided|agreed) (?:to|on|that)\b|\bdecision(?::| is\b| was\b)"
    r"|\b(?:let'?s|we'?ll|we will|I'?ll|we should) (?:use|adopt|pick)\b"
    r"|\b(?:I|we|user)(?:'ve)? (?:choose|chose|chosen|pick|picked|approved?|confirm|accept|accepted)\b"
    r"|\b(?:we|user)(?:'ve)? confirmed\b"
    r"|\bsettled on\b|\bswitch(?:ed|ing) to\b|(?:^|\b(?:please|let's|we'll|should|then) )switch to\b"
    r"|\bsticks? (?:to|with)\b|\b(?:was|is) (?:approved|confirmed"
    r"|chosen)\b"
    r"|(?<!没)(?<!没有)(?<!还没)(?<!未)(?<!取)决定(?!性|因素|不了)|就用|改用|换成|采用|敲定|定下来"
    r"|(?<!可)(?<!挑)选(?![项手举中修取区单型课题])"
    r"|(?<!请)(?<!帮我)(?<!待)(?<!未)(?<!需要)(?<!有)确认(?![码信邮按框一下])"
    r"|同意|批准|就这么办|按方案|用方案",
)
PREFERENCE = Cue(
    "i i'd my please me",
    r"\bI(?:'d| would)?(?: much| strongly| really)? prefer\b|\bI(?:'d| would) rather\b|\bmy preference\b"
    r"|\bI(?: really| always)? (?:like|love|hate|dislike) (?!it\b|that\b|this\b|the idea\b|to know\b)"
    r"|\bI (?:usually|normally|generally|always) \w+|\bplease (?:answer|reply|respond|write|speak) in\b"
    r"|\bcall me\b|我(?:比较|更|很|还是|最)?喜欢|我(?:更|比较|还是)?(?:偏好|倾向|习惯|偏爱)|我(?:一般"
    r"|通常|平时)"
    r"|我更愿意|我的偏好|我讨厌|用(?:中文|英文|英语)(?:回答|回复|写|交流)|叫我",
)
ERROR = Cue(
    "error errors exception exceptions failed fails failure fatal panic crash crashed crashes timed"
    " timing timeout"
    " timeouts refused denied broken traceback segfault leak leaks leaked deadlock conflict conflicts"
    " bug exit",
    r"\b(?:\w{0,60}errors?|\w{0,60}exceptions?|failed|fails|failure|fatal|panic|crash(?:ed|es)?|tim(?:ed"
    r"|ing) out"
    r"|timeouts?|refused|denied|broken|traceback|segfault|leak(?:ed|s)?|deadlock|conflicts?|bug"
    r"|exit code [1-9]\d*)\b|错误|报错|异常|失败|崩溃|超时|拒绝|泄漏|死锁|冲突|故障|缺陷",
)
RESULT = Cue(
    "cause because caused due turn turns reason fix problem issue answer found fixed resolved solved"
    " confirmed"
    " verified measured passed succeeded works conclusion concluded therefore result summary deployed"
    " merged released"
    " added removed implemented raised",
    r"\b(?:root cause|because|caused by|due to|turns? out|the (?:cause|reason|fix|problem|issue"
    r"|answer) (?:is|was)"
    r"|found|fixed|resolved|solved|confirmed|verified|measured|passed|succeeded|works now|conclusion"
    r"|concluded"
    r"|therefore|as a result|in summary|result|deployed|merged|released|added|removed|implemented|raised)\b"
    r"|根因|原因|因为|由于|所以|因此|结论|结果|发现|修复|解决|证实|验证|实测|通过|成功|上线|合并|完成"
    r"|总结|原来",
)
PROCESS = Cue(
    "ok okay sure great perfect thank thanks hello hi hey certainly course sounds got alright good"
    " problem welcome"
    " cool nice let let's i'll ill going looking checking hope feel help now will",
    r"^(?:ok(?:ay)?|sure|great|perfect|thanks?|thank you|hello|hi|hey|certainly|of course|sounds good"
    r"|got it|alright"
    r"|good (?:morning|afternoon|evening)|no problem|you'?re welcome|cool|nice)\b(?:\W+\w+){0,3}\W*$"
    r"|^(?:(?:now|next|first|then|sure|ok|okay|great|good|thanks),?!?\.? ){0,2}(?:let me|let's (?:see"
    r"|look|check|take)"
    r"|I'?ll (?:now |start|take|look|check|begin)|I will now|I'?m going to|I am going to|looking at"
    r"|checking)\b"
    r"|\b(?:hope this helps|feel free|let me know|how can I help|happy to help)\b"
    r"|^(?:好的?|您?你?好|谢谢|多谢|嗯|行|可以|收到|没问题|不客气|明白了?|早上好"
    r"|辛苦了)[啊呀吧哦呢的了，。！!,. ]*.{0,4}$"
    r"|^(?:现在|接下来|下面|首先|然后)?(?:让我|我来|我先|我现在|我将|我会)(?:们)?.{0,3}(?:看|查|检|试"
    r"|分析|继续|开始|读)"
    r"|希望.{0,4}帮助|随时告诉我|有什么可以帮",
)
UNIT = re.compile(
    r"(?<![\w.])\d+(?:[.,]\d+){0,6}(?: ?(?:ms|us|ns|secs?|seconds?|mins?|minutes?|hours?|hrs?|days?|weeks?"
    r"|[KMGT]i?B|[kKM]|bytes?|tokens?|px|rps|qps|users?|rows?|lines?|files?|tests?|req/s|USD|[sh])\b"
    r"|%| ?(?:毫秒|秒|分钟|小时|天|周|个月|年|元|美元|万|亿|倍|次|条|行|个|人|台|字节|兆|度))",
    re.ASCII,
)

_FILE_EXT = (
    "py|pyi|ts|tsx|js|jsx|mjs|json|jsonl|ya?ml|toml|ini|cfg|conf|env|md|txt|rst|csv|tsv|sql|db|sqlite3?|sh|bash|go"
    "|rs|java|kt|c|h|cc|cpp|hpp|cs|rb|php|html?|css|scss|vue|xml|log|lock|pdf|png|jpe?g|ipynb|proto|tf|gz|zip|parquet"
)
IDENTIFIER = re.compile(
    r"`(?P<tick>[^`\n]{1,80})`|\"(?P<quote>[^\"\n]{1,60})\"|“(?P<curly>[^”\n]{1,60})”"
    r"|「(?P<corner>[^」\n]{1,60})」"
    r"|《(?P<book>[^》\n]{1,60})》|(?<![\w'])'(?P<single>[^'\n]{1,40})'(?!\w)"
    r"|(?P<fang>方案 ?[A-Z0-9一二三四五甲乙丙丁])"
    r"|端口(?:号)?[ :：是为]{0,2}(?P<port>\d{1,5})\b"
    # One look-behind for all that starts at a word, so that the middle of a word costs one failed test.
    r"|(?<!\w)(?:(?P<url>https?://[^\s<>\"'`，。；、）】》」]{1,300})"
    r"|(?P<mail>(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5})"
    r"|(?P<win>[A-Za-z]:\\[\w.\\-]{1,200})"
    r"|(?P<path>(?<![\w./@~-])(?:(?:~|\.{1,2})?/[\w.@+-]{1,200}(?:/[\w.@+-]{0,200}){0,40}"
    r"|@?[\w.-]{1,200}(?:/[\w.@+-]{1,200}){1,40}/?"
    rf"|[\w-]{{1,100}}(?:\.[\w-]{{1,100}}){{0,5}}\.(?:{_FILE_EXT})\b(?![\w(])))"
    r"|(?P<ip>(?<!\.)\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/\d{1,2})?(?![\w.]))"
    r"|(?P<host>(?<![.-])[A-Za-z][\w-]{0,100}(?:\.[\w-]{1,60}){0,5}:\d{2,5}\b)"
    r"|(?P<unit>" + UNIT.pattern + r")"
    r"|(?P<version>(?<!\.)v?\d+(?:\.\d+){1,5}(?:[-+][\w.]{1,40})?\b|v\d+\b)"
    r"|(?P<flag>(?<!-)--[A-Za-z][\w-]{1,60})"
    r"|(?P<hash>(?=[0-9a-f]{0,39}\d)(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,40}\b)"
    r"|(?P<ticket>[A-Z][A-Z0-9]{1,9}-\d+\b|(?<!&)#\d{1,7}\b)"
    r"|(?P<snake>_{0,2}[A-Za-z0-9]{1,100}(?:_{1,2}[A-Za-z0-9]{1,100}){1,12}(?:__)?\b)"
    r"|(?P<dotted>[A-Za-z_]\w{1,100}(?:\.[A-Za-z_]\w{1,100}){1,8}\b(?:\(\))?)"
    r"|(?P<kebab>(?<!-)[A-Za-z]{1,40}(?:-[A-Za-z]{1,40}){0,4}-[A-Za-z]{0,40}\d[\w.]{0,40}\b)"
    r"|(?P<camel>[a-z]{1,40}\d{0,4}(?:[A-Z][a-z0-9]{1,40}){1,10}[A-Z]{0,5}\b"
    r"|(?:[A-Z][a-z0-9]{1,40}){2,10}\b)"
    r"|(?P<plan>(?:[Pp]lan|[Oo]ption) [A-Z0-9]\b)"
    r"|(?:[Pp]orts?|PID|pid|[Ii]ssue|PR|[Bb]uild)[ :=#]{1,2}(?P<number>\d{1,9})\b)",
    re.ASCII,
)
# A plain sentence has none of these, and no identifier: most are spared the long pattern.
_NAMED = re.compile(
    r"[\d/\\_`\"“「《@:]|[a-z][A-Z]|\w\.\w|--[A-Za-z]|(?<![\w'])'|方案|(?:[Pp]lan|[Oo]ption) [A-Z]", re.ASCII
)
_QUOTED = re.compile(
    r"`[^`\n]{1,200}`|\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|「[^」\n]{1,200}」|(?<![\w'])'[^'\n]{2,200}'(?!\w)"
)
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")


def language_of(text: str) -> str:
    """Language of a text by the share of scripts: ``zh``, ``ja``, ``ko``, ``ru``, ``ar``, ``en`` or ``und``.

    ``en`` stands for every language in Latin letters. Code, URLs and identifiers do not count, so that a
    Chinese report on an English code base is Chinese. ``und`` means there is nothing to judge by.
    """
    sample = text if len(text) <= 2 * SAMPLE_CHARS else f"{text[:SAMPLE_CHARS]}\n\n{text[-SAMPLE_CHARS:]}"
    prose = _QUOTED.sub(" ", IDENTIFIER.sub(" ", "\n".join(prose_lines(sample)) or sample))
    counts = {
        "zh": len(_HAN.findall(prose)),
        "ja": 3 * len(re.findall(r"[\u3040-\u30ff]", prose)),
        "ko": len(re.findall(r"[\uac00-\ud7af]", prose)),
        "ru": len(re.findall(r"[\u0400-\u04ff]", prose)) // 5,
        "ar": len(re.findall(r"[\u0600-\u06ff]", prose)) // 5,
    }
    name, most = max(counts.items(), key=lambda item: item[1])
    words = len(_WORD.findall(prose))
    if not most and not words:
        return "und"
    # A Han character carries about half a word, and technical Chinese borrows many English words.
    return name if most >= 0.4 * words else "en"


def identifiers(text: str) -> list[str]:
    """Names that a summary must not lose, in order of first use, each once.

    Paths, URLs, versions, ports, hashes, IPs, numbers with units, quoted names, environment variables,
    dotted, camel and snake names, flags, ticket ids, and lettered plans.
    """
    found: dict[str, None] = {}
    if not _NAMED.search(text):
        return []
    for match in IDENTIFIER.finditer(text):
        kind = match.lastgroup or ""
        name = match[kind].strip() if kind else ""
        if kind in {"url", "path", "win"}:
            name = name.rstrip(".,;:!?)]}*")
        if kind == "path" and not _is_path(name):
            continue
        if kind in _QUOTES and not 1 <= len(name.split()) <= 6:
            continue
        if len(name) > 1 or kind in {"port", "number"}:
            found[name] = None
    return list(found)


_QUOTES = frozenset({"quote", "curly", "single", "tick", "corner"})


def _is_path(name: str) -> bool:
    last = name.rsplit("/", 1)[-1]
    rooted = name.startswith(("/", "~", ".", "@")) and any(char.isalnum() for char in name)
    return rooted or "." in last[1:] or name.count("/") >= 2 or any(char in name for char in "_-")


def score(sentence: str) -> float:
    """How much a sentence is worth keeping: cues for conclusions add, greetings and process take away (E11).

    >>> score("The user confirmed plan B.") > score("Let me look at the file now.")
    True
    >>> score("重启试过，无效。") > score("好的，谢谢！")
    True
    """
    said = sentence[:MAX_CHARS].replace("’", "'")
    hints = _hints(said)
    value = sum(weight for cue, weight in _WEIGHTS if cue.found(said, hints))
    return value + 0.7 * min(4, len(identifiers(said))) + (1.0 if UNIT.search(said) else 0.0)


_WEIGHTS = (
    (DECISION, 3.0),
    (EXCLUSION, 3.0),
    (CONSTRAINT, 3.0),
    (ERROR, 2.0),
    (RESULT, 2.0),
    (PREFERENCE, 2.0),
    (PROCESS, -3.0),
)
_PIN_CUES: tuple[tuple[PinKind, Cue], ...] = (
    ("exclusion", EXCLUSION),
    ("constraint", CONSTRAINT),
    ("decision", DECISION),
    ("preference", PREFERENCE),
)


def pin_kind(sentence: str) -> PinKind | None:
    """What a user's sentence binds the agent to, or None (E15, C2). Questions and quotations bind nobody.

    >>> [pin_kind(s) for s in ("Never restart the database.", "我们决定用方案B", "It never works.")]
    ['constraint', 'decision', None]
    """
    if len(sentence) > MAX_CHARS:
        return None
    said = _QUOTED.sub("‘’", sentence.strip().replace("’", "'"))
    hints = _hints(said)
    kind = next((kind for kind, cue in _PIN_CUES if cue.found(said, hints)), None)
    if kind and (len(_WORD.findall(said)) > MAX_WORDS or len(_HAN.findall(said)) > MAX_HAN):
        return None
    if len(_WORD.findall(said)) + 2 * len(_HAN.findall(said)) < 3:
        return None
    asked = said.rstrip(" ‘’\"')）”」。").endswith(("?", "？", "吗"))
    return None if asked and "please" not in hints else kind


def pins_in(text: str) -> list[tuple[PinKind, str]]:
    """Pins in a user's message, verbatim and in order, each once, at most ``MAX_PINS``.

    Fenced code, tagged inserts, logs, stack traces and pasted code are not the user's word and give none.
    """
    found: dict[str, tuple[PinKind, str]] = {}
    for line in prose_lines(text):
        for sentence in sentences(line):
            if kind := pin_kind(sentence):
                found.setdefault(sentence, (kind, sentence))
    pins = list(found.values())
    half = MAX_PINS // 2
    return pins if len(pins) <= MAX_PINS else pins[:half] + pins[-half:]
