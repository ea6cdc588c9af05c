"""What the scripted explorer says, in the language it is spoken to."""

import re
from dataclasses import dataclass

from headwater.lab.findings import ClassSeen

_HAN = re.compile("[\u4e00-\u9fff]")


@dataclass(frozen=True)
class Words:
    """Sentences with `{}` fields; `based` and `plain` tell of a class."""

    look: str
    owed: str
    delegate: str
    brief: str
    remember: str
    read_back: str
    classes: str
    search: str
    more: str
    imported: str
    next: str
    constant: str
    based: str
    plain: str
    recalled: str
    read: str
    hub: str
    concluded: str

    def fact(self, seen: ClassSeen) -> str:
        """One sentence about a class."""
        form = self.based if seen.bases else self.plain
        return form.format(name=seen.name, path=seen.path, bases=seen.bases, methods=seen.methods)


ENGLISH = Words(
    look="Looking at {path} first.",
    owed="That was too large to come in; reading it from where it is stored.",
    delegate="The three largest modules are {modules}. Each goes to a reader of its own.",
    brief=(
        "Module: {module}\nRead this module's source with list_dir and read_file, in about 16 steps. "
        "Conclude in a few lines: its central classes, what most of it imports, where to start reading."
    ),
    remember="This is worth keeping beyond this session.",
    read_back="Back to §{tag}§, which has left the window.",
    classes="What does {path} define?",
    search="{name} came up {count} times; where is it made?",
    more="Going on with {path} from line {line} of {total}.",
    imported="{path} was imported {count} times by what has been read; reading it.",
    next="Nothing that has been read asks for a particular file; the next by name.",
    constant="{name} is {value} in {path}.",
    based="{name} is defined in {path} and derives from {bases}.",
    plain="{name} is defined in {path}.",
    recalled="From long-term memory, {count} facts about this code base:",
    read="Read {files:,} files and {lines:,} lines of {where}.",
    hub="{path} is what others import most ({count} times in what was read).",
    concluded="Three readers worked in parallel on {modules}; {count} conclusions came back.",
)
CHINESE = Words(
    look="先看 {path} 的目录。",
    owed="这个结果太大，没有进入窗口；现在从存放处读取。",
    delegate="最大的三个模块是 {modules}，各交给一个阅读者。",
    brief=(
        "模块：{module}\n用 list_dir 和 read_file 阅读这个模块的源码，大约 16 步。"
        "用几行话给出结论：核心的类、主要导入了什么、应当从哪里读起。"
    ),
    remember="这一点在本次会话之后也值得记住。",
    read_back="回看已经离开窗口的 §{tag}§。",
    classes="{path} 里定义了什么？",
    search="{name} 出现了 {count} 次，它在哪里被创建？",
    more="继续读 {path}，从第 {line} 行开始，共 {total} 行。",
    imported="已读的内容导入了 {path} 共 {count} 次，现在读它。",
    next="已读的内容没有指向特定的文件，按名字读下一个。",
    constant="{name} 的值是 {value}，定义在 {path}。",
    based="{name} 定义在 {path}，继承自 {bases}。",
    plain="{name} 定义在 {path}。",
    recalled="长期记忆中有 {count} 条关于这个代码库的事实：",
    read="读了 {where} 的 {files:,} 个文件，共 {lines:,} 行。",
    hub="{path} 被导入最多（已读内容中 {count} 次）。",
    concluded="三个阅读者并行阅读了 {modules}，带回 {count} 份结论。",
)


def words_for(text: str) -> Words:
    """The words to answer a text with."""
    return CHINESE if _HAN.search(text) else ENGLISH
