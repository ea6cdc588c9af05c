"""The words of a window refusal: what is too long, by which relation, beyond which bound, in which numbers.

Providers word the refusal in a hundred ways, English, Chinese and more,
but say the same few things. `lex` turns a
text into a short string of symbols, one letter a kind, in linear time; `overflow` judges the relation between
them and `overflow_numbers` the roles of the numbers. No provider is known by name (M18, M21).
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
    r"(?:(?<![a-z0-9_.\-/#$])|(?<=\d{3}/)(?=\d{4}|\d{1,3},\d{3}))"  # "140221/131072" holds two
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
    (
        "F",
        "en",
        r"chat~completions?|context~(?:deadline|cancel[a-z]*|manager|variables?|menu)"
        r"|(?:error|api|http|provider|server|invalid)~response|invalid~(?:arguments?|parameters?)",
    ),
    ("L", "en", r"(?<=exceeds )cache~size"),  # a local engine's cache is its window
    # Foreign subjects: things that can be too long without the window having anything to do with it.
    (
        "Z",
        "",
        r"(?:headers?|cookies?) '[^'\n]{1,80}'|\$\.[a-z_]{1,40}|(?<=\d) (?:messages|inputs)(?! tokens)",
    ),
    (
        "Z",
        "en",
        r"input~should~be~(?:less|greater|a|one)|encoder~prompt|requested~context~size"
        r"|(?:number|count)~of~(?:messages|tools|functions|images|files|documents|turns|requests|items|texts"
        r"|inputs|stop~sequences|pages)"
        r"|too~many~(?:messages|tools|functions|images|files|documents|requests|turns|items|inputs|pages"
        r"|connections)"
        r"|(?:access|auth(?:entication|orization)?|oauth|security|bearer|refresh|session|csrf|api|jwt|id|device)~tokens?"
        r"|(?:image|video|audio|pdf|file)~inputs?|string|array|images?|files?|ur[li]"
        r"|headers?|descriptions?|schema|fields?|filename|title|attachments?|audio|video|pdf|pages?|payload|body"
        r"|bytes?|batch|entity|upload|metadata|command|arguments?|property|names?|password|username|comment"
        r"|memory|disk|cache|cookie|retention|characters|chars|pixels?|dimensions?|seconds|duration|nesting|depth",
    ),
    (
        "Z",
        "",
        r"(?:图片|图像|文件|附件|标题|名称|用户名|昵称|描述|备注|评论|密码|字段|短信)的?(?:输入|内容|长度)*"
        r"|工具(?:返回|结果|输出|调用)的?(?:内容|结果)*|工具数|消息数|条数|轮数|轮次|链接|音频"
        r"|视频|字数|字符|字节|请求体|请求数|访问量|业务量|并发|内存|显存",
    ),
    ("T", "en", r"max_total_tokens"),
    (
        "O",
        "en",
        r"maximum~tokens(?=~(?:you|value|requested|parameter|setting))"
        r"|max_tokens?|max~(?:new|completion|output|generation|generated)~tokens?|(?:thinking|reasoning)~budget"
        r"|budget~tokens|outputs?|completions?|generated"
        r"|generation|generate|responses?|reply|answer",
    ),
    ("O", "en", r"ausgaben?|antwort|sortie|réponse"),
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
        r"|no~(?:more|longer|larger|greater)~than|out~of~range",
    ),
    (
        "M",
        "",
        r"<=|≤|(?:should|must)\s+be\s+(?=\[)|(?:不能|不得|不可|不应|不要|不允许)超[过出]|不超过"
        r"|(?:必须|需要?|须|应该?|要)?(?:小于|少于|低于)(?:或?等于)?|应[在为]|需[在为]|范围|(?:控制|限制)在",
    ),
    (
        "B",
        "en",
        r"(?:too|overly)~(?:long|large|big|lengthy|many)|oversized?|overlong|overflows|overflowed"
        r"|(?:not|cannot|can't|won't|doesn't|don't)~fit",
    ),
    ("B", "en", r"(?:demasiado|muy|muito) (?:larg[oa]|long[oa]|grande)s?"),
    ("B", "en", r"zu (?:lang|groß|viele)|trop (?:long(?:ue)?|grande?)s?|trop de(?= jetons| tokens)"),
    ("B", "", r"过长|过大|过多|太长|太大|太多|超长|超限|超标|溢出"),
    (
        "X",
        "en",
        r"(?<!to )exceed(?:s|ed|ing)?|surpass(?:es|ed)?|(?:reached|hit)(?=\s(?:the|its|maximum|max)\s)"
        r"|reached(?=[:.,;(\s]*(?:\d|$)|\s(?:while|during|before)\s)",
    ),
    ("X", "en", r"über(?:schreite[nt]|schritten|steig(?:t|en))|dépass(?:e|ent|ée?)|excèd(?:e|ent)"),
    ("X", "en", r"(?:super|exced|sobrepas|ultrapass)(?:an|en|am|em|a|e|ou|ó)"),
    ("X", "", r"超过|超出|超え|大于|多于|高于|长于|(?<=[\d)s])\s>=?\s(?=[\da-z])|(?<=\d)>=?(?=\d)"),
    (
        "x",
        "en",
        r"(?:is|are|was|be|been|were) (?:longer|larger|greater|bigger|higher)~than|more~than"
        r"|(?<=tokens )(?:longer|larger|greater) than"
        r"|(?:over|above|beyond)(?=\s(?:the|its|model|max|limit|context|\d))",
    ),
    ("E", "", r"(?:上下文|窗口)(?:长度|大小|窗口)?已(?:用)?满"),
    (
        "E",
        "en",
        r"context_(?:overflow|too_long|window_overflow)(?:_error)?|(?<=: )context~overflow"
        r"|max~context~reached"
        r"|context~(?:(?:window|size|buffer)~)?is~full"
        r"|context~window~full",
    ),
    (
        "C",
        "en",
        r"(?:max~)?context~(?:windows?|lengths?|sizes?|limits?|budget|capacity)|context|max~model~len(?:gth)?"
        r"|max~seq(?:uence)?~len(?:gth)?|n_ctx|num_ctx|model~length|sequence~length"
        r"|(?:model|token|input|prompt)~window|max(?:imum)?~position~embeddings",
    ),
    (
        "C",
        "en",
        r"kontext(?:fensters?|länge|größe|limits?)?|fenêtre de contexte"
        r"|longueur (?:maximale )?d[ue] contexte|contexte|(?:(?:ventana|longitud|janela) de )?contexto",
    ),
    ("C", "", r"上下文(?:长度|窗口|大小)?|窗口(?:长度|大小)?|コンテキスト(?:长|ウィンドウ)?"),
    (
        "Q",
        "en",
        r"requested|requesting|resulted~in|contains?|containing|received|got|given|provided|supplied|passed|sent"
        r"|submitted|keep~the~first|n_prompt_tokens|needs?|requires?",
    ),
    ("Q", "", r"请求了|需要|包含|收到|提交了|传入了?|输入了|实际(?:请求|输入|传入)"),
    ("q", "en", r"total(?:s|ed|ing)?(?:~of)?|current(?:ly)?|actual(?:ly)?|estimated|counted"),
    ("q", "", r"实际|実际|当前|总计|合计|共计|共|现有"),
    (
        "L",
        "en",
        r"limits?|limited|maximum|maximal|max|allowe?[ds]|allowable|permitted|supports?|supported|capacity"
        r"|ceiling|(?:below|under)(?=\s\d)|upper~bound|at~most|up~to|configured",
    ),
    ("L", "en", r"maximale[nrs]?|höchstens|limite|maximum autorisé"),
    ("L", "en", r"máxim[oa]|límite"),
    ("L", "", r"可用|上限|限制|最大|最长|最多|最高|支持|允许|限长"),
    (
        "I",
        "en",
        r"prompts?|inputs?|messages|conversations?|dialog(?:ue)?s?|(?:chat|message)~history|history|transcript",
    ),
    (
        "I",
        "en",
        r"eingaben?|nachrichten|gespräch|entrées?|invite"
        r"|entradas?|mensajes|mensagens|conversa(?:ción|ções)?",
    ),
    ("I", "", r"输入|入力|プロンプト|提示词|提示语|对话|会话|聊天记录|历史(?:消息|记录)?"),
    ("R", "en", r"requests?|texts?|contents?|message|documents?|quer(?:y|ies)"),
    ("R", "en", r"anfrage|requête|solicitud|(?<!stop )sequences?"),
    ("R", "", r"请求|内容|文本|消息|讯息|问题|文档"),
    ("T", "en", r"tokens?|toks?|jetons?"),
    ("T", "", r"令牌|词元|トークン"),
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
# Traditional characters of the lexicon's words, as the simplified ones.
_SIMPLIFIED = str.maketrans(
    "請過長數詞對話輸內歷記錄視檔圖單總計當實際應須於減縮簡壓額費餘頻後試個們訊會議該為無時間傳資為問題參錯誤標準較這與",
    "请过长数词对话输内历记录视档图单总计当实际应须于减缩简压额费余频后试个们讯会议该为无时间传资为问题参错误标准较这与",
)
_GLUED_NUMBER = re.compile(r"(?P<digits>[\d,_' .]*\d)\s?(?P<suffix>thousand|million|百万|万|千|k|m)?")


class Symbol(NamedTuple):
    """One word or number of the grammar: its kind (a letter), its place, and a number's value."""

    code: str
    start: int
    end: int
    value: int = 0


def normalise(text: str) -> str:
    """One spelling: full-width to ASCII (NFKC), camelCase to snake_case, lower case, no quotes."""
    spelled = (
        unicodedata.normalize("NFKC", text).replace("\\n", "\n").translate(_LOOSE).translate(_SIMPLIFIED)
    )
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
