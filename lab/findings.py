"""What an explorer has read: files and folders it saw listed, names it met, and what they import."""

import re
from collections import Counter
from dataclasses import dataclass, field

_LIST_HEAD = re.compile(r"^(\S+): [\d,]+ files, [\d,]+ lines$")
_LIST_ROW = re.compile(r"^  (\S+?)(/?)  (?:[\d,]+ files, )?([\d,]+) lines$")
_READ_HEAD = re.compile(r"^(\S+\.py): lines (\d+)-(\d+) of (\d+)$")
_HIT = re.compile(r"^(\S+\.py):(\d+): (.*)$")
_IMPORT = re.compile(r"^\s*(?:from ([\w.]+) import|import ([\w.]+))")
_CLASS = re.compile(r"^class (\w+)(\(?)([^):]*)(\)?)")
_METHOD = re.compile(r"^    (?:async )?def (\w+)")
_CONSTANT = re.compile(r"^([A-Z][A-Z0-9_]{4,})(?:: [^=]+)? = (\d[\d_.]*|\"[^\"]{1,40}\")\s*(?:#.*)?$")
_TURN_LINES = 4_000


@dataclass
class ClassSeen:
    """A class met in a file, its bases as written ("" where none were seen), and the methods read so far."""

    name: str
    path: str
    bases: str = ""
    methods: int = 0


@dataclass
class Findings:
    """All an explorer knows, learned from the text of tool results and from nothing else.

    Attributes:
        files: Lines of each file that was listed; `folders` the same of folders, `listed` those opened.
        offsets: The next line to read of each file that was begun; at its end, the number of its lines.
        wanted: How often a module was imported by what was read, by its path without `.py`.
        constants: Value and path of each constant.
        lines: Lines read of each package.
    """

    files: dict[str, int] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    offsets: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    wanted: Counter[str] = field(default_factory=Counter)
    classes: dict[str, ClassSeen] = field(default_factory=dict)
    mentions: Counter[str] = field(default_factory=Counter)
    constants: dict[str, tuple[str, str]] = field(default_factory=dict)
    lines: Counter[str] = field(default_factory=Counter)

    def learn(self, text: str) -> None:
        """Take in one tool result, of whichever tool its first line shows it to be."""
        head, _, rest = text.partition("\n")
        if found := _LIST_HEAD.match(head):
            self._learn_list(found[1], rest)
        elif found := _READ_HEAD.match(head):
            self._learn_page(found[1], int(found[2]), int(found[3]), int(found[4]), rest)
        else:
            self._learn_hits(text)

    def _learn_list(self, base: str, rows: str) -> None:
        self.listed.add(base)
        prefix = "" if base == "." else f"{base}/"
        for row in rows.splitlines():
            if found := _LIST_ROW.match(row):
                known = self.folders if found[2] else self.files
                known[prefix + found[1]] = int(found[3].replace(",", ""))

    def _learn_page(self, path: str, first: int, last: int, total: int, text: str) -> None:
        self.files.setdefault(path, total)
        self.sizes[path] = total
        self.offsets[path] = max(last, self.offsets.get(path, 0))
        package = path.partition("/")[0]
        self.lines[package] += last - first + 1
        current: ClassSeen | None = None
        heading: ClassSeen | None = None
        for line in text.splitlines():
            if heading:
                # A class whose bases stand on lines of their own.
                done = line.startswith(")")
                heading.bases = f"{heading.bases} {'' if done else line.strip()}".strip().rstrip(
                    "," if done else ""
                )
                heading = None if done else heading
            elif found := _IMPORT.match(line):
                module = (found[1] or found[2]).replace(".", "/")
                if "/" in module:
                    self.wanted[module] += 1
            elif found := _CLASS.match(line):
                current = self._class(found, path)
                if found[2] and not found[4] and current.path == path:
                    heading, current.bases = current, ""
            elif current and current.path == path and _METHOD.match(line):
                current.methods += 1
            elif found := _CONSTANT.match(line):
                self.constants.setdefault(found[1], (found[2], path))
            if "[" in line or "(" in line:
                self.mentions.update(
                    name for name in re.findall(r"\b[A-Z][a-z]\w{4,}\b", line) if name != package
                )

    def _learn_hits(self, text: str) -> None:
        for row in text.splitlines():
            if found := _HIT.match(row):
                self.wanted[found[1].removesuffix(".py")] += 1
                if cls := _CLASS.match(found[3]):
                    self._class(cls, found[1])

    def _class(self, found: re.Match[str], path: str) -> ClassSeen:
        seen = self.classes.setdefault(found[1], ClassSeen(found[1], path))
        if seen.path == path and found[4]:
            seen.bases = found[3].strip()
        return seen

    def open_files(self) -> list[str]:
        """Files that were begun and have more to read, in the order they were begun."""
        return [path for path, at in self.offsets.items() if at < self.sizes.get(path, 0)]

    def read_files(self) -> list[str]:
        """Files that were begun."""
        return list(self.offsets)

    def next_files(self, within: str = "", without: tuple[str, ...] = ()) -> list[str]:
        """Files not begun yet: of the package least read, those most imported by what was read, by path."""
        left = [p for p in self.files if p not in self.offsets and _inside(p, within, without)]
        return sorted((p for p in left if self.files[p]), key=self._rank)

    def next_folders(self, within: str = "", without: tuple[str, ...] = ()) -> list[str]:
        """Folders not listed yet, in the same order."""
        left = [p for p in self.folders if p not in self.listed and _inside(p, within, without)]
        return sorted(left, key=self._rank)

    def largest(self, count: int) -> list[str]:
        """The largest folders at the second level, by lines."""
        second = [p for p in self.folders if p.count("/") == 1]
        return sorted(second, key=lambda p: (-self.folders[p], p))[:count]

    def imports_of(self, path: str) -> int:
        """How often a file was imported by what was read."""
        return self._weight(path)

    def central(self, within: str = "") -> list[ClassSeen]:
        """Classes by how much what was read leans on them."""
        found = [c for c in self.classes.values() if _inside(c.path, within, ())]
        return sorted(found, key=lambda c: (-self.mentions[c.name], -c.methods, c.name))

    def _rank(self, path: str) -> tuple[int, int, str]:
        # Packages take turns, a few thousand lines at a time.
        return self.lines[path.partition("/")[0]] // _TURN_LINES, -self._weight(path), path

    def _weight(self, path: str) -> int:
        stem = path.removesuffix(".py").removesuffix("/__init__")
        return self.wanted[stem]


def _inside(path: str, within: str, without: tuple[str, ...]) -> bool:
    if any(path == w or path.startswith(f"{w}/") for w in without):
        return False
    return not within or path == within or path.startswith(f"{within}/")
