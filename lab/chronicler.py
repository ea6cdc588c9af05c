"""A scripted summariser: reads the transcript it is given and tells it, in the JSON the historian asks for.

Everything it says stands in the transcript: what was read, which classes and decisions came up, what the
user wanted. It is extractive and deterministic.
"""

import json
import re
from collections import Counter

from headwater.lab.script import Reply, Request

_ROW = re.compile(r"^\[(\d+)\] (TC|TR|A|U)(?: (\w+))?: (.*)$")
_CALL = re.compile(r"^(\w+)\((\{.*)\)$")
_PATH = re.compile(r'"path": "([^"]+\.py)"')
_CLASS = re.compile(r"\bclass ([A-Z]\w+)")
_FACT = re.compile(r'"content": "([^"]+)"')
_PAGE = re.compile(r"^(?:§\d+§ )?(\S+\.py): lines (\d+)-(\d+) of (\d+)")
_ENGLISH = {
    "title": "Reading {first} and {more} more files",
    "asked": "The user asked: {text}",
    "read": "Read in this stretch: {files}.",
    "classes": "Classes met: {names}.",
    "searched": "Searched for: {names}.",
    "kept": "Written to long-term memory: {facts}",
    "concluded": "{count} sub-agents returned their conclusions: {heads}.",
    "last": "The newest step said: {text}",
    "none": "The stretch of {count} lines holds no reading of files.",
    "next": "go on reading what is imported most",
}
_CHINESE = {
    "title": "阅读 {first} 及另外 {more} 个文件的源码",
    "asked": "用户的要求是：{text}",
    "read": "这一段里阅读了以下源码文件：{files}。",
    "classes": "阅读中遇到的类有：{names}。",
    "searched": "搜索过的符号有：{names}。",
    "kept": "已经写入长期记忆的事实：{facts}",
    "concluded": "{count} 个子智能体交回了结论：{heads}。",
    "last": "最新一步的说明：{text}",
    "none": "这一段共有 {count} 行记录，没有阅读任何文件。",
    "next": "继续阅读被导入最多的文件",
}


def chronicler(request: Request) -> Reply:
    """A `Script`: one summary a request."""
    chinese = "Chinese" in request.system
    said = next((row["text"] for row in request.messages if row["role"] == "user"), "")
    source = said.partition("<transcript>\n")[2].rpartition("\n</transcript>")[0] or said
    return Reply(json.dumps(tell(source, chinese=chinese), ensure_ascii=False))


def tell(source: str, *, chinese: bool) -> dict[str, object]:
    """The summary of a transcript as the historian's object."""
    words = _CHINESE if chinese else _ENGLISH
    files: dict[str, tuple[int, int]] = {}
    classes: Counter[str] = Counter()
    searched: dict[str, None] = {}
    facts: dict[str, None] = {}
    heads: list[str] = []
    asked = last = ""
    kind = tool = ""
    for line in source.splitlines():
        if row := _ROW.match(line):
            kind, tool, line = row[2], row[3] or "", row[4]
        if kind == "U" and row:
            asked = line
        elif kind == "A" and row:
            last = line
        elif kind == "TC" and row and (call := _CALL.match(line)):
            _called(call[1], call[2], files, searched, facts)
        elif kind == "TR":
            classes.update(_CLASS.findall(line))
            if page := _PAGE.match(line):
                first, end = files.get(page[1], (0, 0))
                files[page[1]] = (min(first or int(page[2]), int(page[2])), max(end, int(page[3])))
            elif (
                tool == "delegate"
                and row is None
                and line.strip()
                and len(heads) < 3
                and not line.startswith("-")
            ):
                heads.append(line.strip()[:160].rstrip(".。"))
    return _object(words, source, files, classes, searched, facts, heads, asked, last)


def _called(
    name: str, args: str, files: dict[str, tuple[int, int]], searched: dict[str, None], facts: dict[str, None]
) -> None:
    if name == "read_file" and (path := _PATH.search(args)):
        files.setdefault(path[1], (0, 0))
    elif name == "search":
        pattern = args.partition('"path"')[0].replace(r"\\b", " ")
        searched.update(dict.fromkeys(re.findall(r"[A-Za-z_]\w{3,}", pattern)[1:]))
    elif name == "ctx_memory" and (fact := _FACT.search(args)):
        facts[fact[1]] = None


def _object(
    words: dict[str, str],
    source: str,
    files: dict[str, tuple[int, int]],
    classes: Counter[str],
    searched: dict[str, None],
    facts: dict[str, None],
    heads: list[str],
    asked: str,
    last: str,
) -> dict[str, object]:
    names = [name for name, _ in sorted(classes.items(), key=lambda kv: (-kv[1], kv[0]))]
    ranges = [f"{path} {first}-{end}" if end else path for path, (first, end) in files.items()]
    parts = []
    if asked:
        parts.append(words["asked"].format(text=_closed(asked[:300])))
    if ranges:
        parts.append(words["read"].format(files=", ".join(ranges)))
    if names:
        parts.append(words["classes"].format(names=", ".join(names[:24])))
    if searched:
        parts.append(words["searched"].format(names=", ".join(list(searched)[:8])))
    if facts:
        parts.append(words["kept"].format(facts=" ".join(facts)))
    if heads:
        parts.append(words["concluded"].format(count=len(heads), heads="; ".join(heads)))
    if not parts:
        parts.append(words["none"].format(count=len(source.splitlines())))
    tail = [words["last"].format(text=_closed(last[:200]))] if last else []
    title = words["title"].format(first=next(iter(files), "?"), more=max(0, len(files) - 1))
    return {
        "title": title,
        "p1": "\n".join([*parts, *tail]),
        "p2": "\n".join(parts[:3]),
        "p3": "\n".join(parts[:1]),
        "p4": _closed(title),
        "importance": 70 if facts or heads else 45,
        "episode": "exploration",
        "facts": [],
        "work": {
            "goal": asked[:200],
            "progress": [title],
            "decisions": [],
            "constraints": [],
            "next_steps": [words["next"]],
        },
    }


def _closed(text: str) -> str:
    """The text with a full stop of its own language."""
    text = text.strip()
    if text.endswith((".", "。", "!", "！", "?", "？")):
        return text
    text = text.rstrip("…,;:，；：")
    return text + ("。" if text and text[-1] > "\u2e80" else ".")
