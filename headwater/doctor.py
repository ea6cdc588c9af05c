"""`headwater doctor`: what Headwater works with on this machine, and whether its memory folder is sound."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from headwater.memory import Memory, StorageError
from headwater.window.policy import PolicyError, WindowPolicy
from headwater.window.sizes import max_output_of, window_of
from headwater.window.tokens import count_text, ready, tokenizer

_ENGLISH = {
    "window": "Window of {model}: {tokens:,} tokens, by {source}. Lines: offload {offload:,}, compact "
    "{compact:,}, "
    "exhausted {exhausted:,}.",
    "no model": "an unnamed model",
    "bad window": "Window: {error}",
    "explicit": "your setting",
    "default": "default, since nothing is known of it; set WindowPolicy(window=...)",
    "name": "its name ({pattern})",
    "tokenizer": "Tokenizer: {name}",
    "embeddings": "Embedding model: {name}, {size} dimensions, works without a network.",
    "no embeddings": "Embedding model: {error}; facts are found by their words only.",
    "no folder": "Memory folder {folder}: not there yet; it is made on first use.",
    "not writable": "Memory folder {folder}: cannot be written; check its owner and mode.",
    "not a folder": "Memory folder {folder}: is no folder; choose another.",
    "open": "Memory folder {folder}: readable by others (mode {mode}); chmod 700 it.",
    "archive": "Archive: {sessions:,} sessions, {messages:,} messages.",
    "artifacts": "Artifacts: {count:,}, all as their names say.",
    "damaged": "Artifacts: {damaged:,} of {count:,} are damaged, first {first}.",
    "facts": "Facts: {count:,} live.",
    "broken": "{part}: {error}",
}
_CHINESE = {
    "window": "{model} 的窗口：{tokens:,} 个 token，依据是{source}。水位线：卸载 {offload:,}，压缩 "
    "{compact:,}，"
    "耗尽 {exhausted:,}。",
    "no model": "未指定的模型",
    "bad window": "窗口：{error}",
    "explicit": "你的设置",
    "default": "默认值，因为对它一无所知；请设置 WindowPolicy(window=...)",
    "name": "它的名字（{pattern}）",
    "tokenizer": "分词器：{name}",
    "embeddings": "嵌入模型：{name}，{size} 维，不需要联网。",
    "no embeddings": "嵌入模型：{error}；事实只能按词查找。",
    "no folder": "记忆目录 {folder}：还不存在，首次使用时创建。",
    "not writable": "记忆目录 {folder}：无法写入，请检查所有者和权限。",
    "not a folder": "记忆目录 {folder}：不是目录，请另选一个。",
    "open": "记忆目录 {folder}：其他用户可读（权限 {mode}），请执行 chmod 700。",
    "archive": "存档：{sessions:,} 个会话，{messages:,} 条消息。",
    "artifacts": "卸载的文本：{count:,} 份，内容都与名称相符。",
    "damaged": "卸载的文本：{count:,} 份中有 {damaged:,} 份损坏，第一份是 {first}。",
    "facts": "事实：{count:,} 条有效。",
    "broken": "{part}：{error}",
}


class Finding(NamedTuple):
    """One thing that was looked at, and whether it is as it should be."""

    healthy: bool
    text: str


def examine(model: str | None, window: int | None, folder: Path, language: str = "en") -> list[Finding]:
    """Look at everything; nothing is changed, and no folder is made.

    Args:
        model: A model's name, with or without its provider; None for none in particular.
        window: Tokens set by hand.
        folder: The memory folder.
        language: "en" or "zh".
    """
    words = _CHINESE if language == "zh" else _ENGLISH
    return [_window(words, model, window), _tokenizer(words), _embeddings(words), *_memory(words, folder)]


def _window(words: dict[str, str], model: str | None, window: int | None) -> Finding:
    size = window_of(model or "", explicit=window)
    try:
        lines = WindowPolicy(window=window).lines(size.tokens, max_output_of(model or ""))
    except PolicyError as error:
        return Finding(False, words["bad window"].format(error=error))
    kind, _, pattern = size.source.partition(":")
    source = words[kind].format(pattern=pattern) if kind in words else size.source
    shown = {"model": model or words["no model"], "tokens": size.tokens, "source": source, **lines._asdict()}
    return Finding(True, words["window"].format(**shown))


def _tokenizer(words: dict[str, str]) -> Finding:
    count_text("a")
    return Finding(ready(), words["tokenizer"].format(name=tokenizer()))


def _embeddings(words: dict[str, str]) -> Finding:
    from headwater.memory.embed import SentenceEmbeddings

    embeddings = SentenceEmbeddings()
    try:
        size = len(embeddings.embed_query("a"))
    except (ImportError, OSError) as error:
        return Finding(False, words["no embeddings"].format(error=error))
    return Finding(True, words["embeddings"].format(name=embeddings.name, size=size))


def _memory(words: dict[str, str], folder: Path) -> Iterator[Finding]:
    folder = folder.expanduser().absolute()
    if not folder.exists():
        yield Finding(True, words["no folder"].format(folder=folder))
        return
    if not folder.is_dir():
        yield Finding(False, words["not a folder"].format(folder=folder))
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(False, words["not writable"].format(folder=folder))
        return
    mode = folder.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        yield Finding(False, words["open"].format(folder=folder, mode=oct(mode)[2:]))
    with Memory(folder) as memory:
        yield _archive(words, memory, folder)
        yield _artifacts(words, memory, folder)
        yield _facts(words, memory, folder)


def _archive(words: dict[str, str], memory: Memory, folder: Path) -> Finding:
    if not (folder / "archive.sqlite").exists():
        return Finding(True, words["archive"].format(sessions=0, messages=0))
    try:
        names = memory.archive.sessions()
        messages = sum(map(memory.archive.last, names))
    except StorageError as error:
        return Finding(False, words["broken"].format(part="archive.sqlite", error=error))
    return Finding(True, words["archive"].format(sessions=len(names), messages=messages))


def _artifacts(words: dict[str, str], memory: Memory, folder: Path) -> Finding:
    home = folder / "artifacts"
    names = sorted(
        f"artifacts/{f.relative_to(home).as_posix()}" for f in home.rglob("*.*") if not f.name.startswith(".")
    )
    damaged = []
    for name in names:
        try:
            memory.artifacts.read_bytes(name)
        except (StorageError, ValueError):
            damaged.append(name)
    if damaged:
        text = words["damaged"].format(damaged=len(damaged), count=len(names), first=damaged[0])
        return Finding(False, text)
    return Finding(True, words["artifacts"].format(count=len(names)))


def _facts(words: dict[str, str], memory: Memory, folder: Path) -> Finding:
    if not (folder / "memory.sqlite").exists():
        return Finding(True, words["facts"].format(count=0))
    try:
        count = sum(fact.live for fact in memory.facts.list())
    except StorageError as error:
        return Finding(False, words["broken"].format(part="memory.sqlite", error=error))
    return Finding(True, words["facts"].format(count=count))
