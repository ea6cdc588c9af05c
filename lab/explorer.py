"""A scripted model that explores a code base: each next call follows from what it has read in the request.

It has no list of calls. What it knows are the tool results it was shown; where a result stands as a
⟦stored …⟧ mark before it could read it, it reads it back as the mark says. Equal requests in equal order
give equal replies.
"""

import re
import threading
from dataclasses import dataclass, field
from typing import Any

from headwater.lab.codebase_tools import PAGE_LINES
from headwater.lab.explorer_words import Words, words_for
from headwater.lab.findings import ClassSeen, Findings
from headwater.lab.script import Reply, Request, ToolCall

DELEGATED = 3
_TAG = re.compile(r"^§\d+§ ")
_STEPS = re.compile(r"(\d+)\s*(?:steps|步)")
_MODULE = re.compile(r"(?:Module|模块)[:：]\s*([\w./]+)")
_STORED = re.compile(r'⟦stored (artifacts/\S+) [^⟧\n]*ctx_expand\("(\d+)"\)⟧')
_KNOWN = re.compile(r"^## (?:Known facts|已知事实)\n(.*?)(?=^## |^</headwater-memory>)", re.M | re.S)
_MEMORY = "<headwater-memory>"
_DEFINITIONS = "^(class|def) "

# One call in so many steps looks wider, remembers, or reads back; the numbers share no factor.
_SEARCH_EVERY, _REMEMBER_EVERY, _READ_BACK_EVERY = 11, 23, 37


class GoalLost(AssertionError):
    """A request in which the task is nowhere to be seen; a model could not go on from it."""


class Explorer:
    """A `Script` for `StrictProvider`: the model of an agent and its sub-agents, told apart by task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._main = Conversation()
        self._modules: dict[str, Conversation] = {}

    def __call__(self, request: Request) -> Reply:
        """The reply to a request; sub-agents may ask in parallel."""
        with self._lock:
            talk = self._talk(request)
            talk.read(request)
            return talk.reply()

    def _talk(self, request: Request) -> "Conversation":
        if "delegate" in request.tools:
            if all(row["role"] == "user" for row in request.messages):
                self._main = Conversation(lead=True)
            return self._main
        said = "\n".join(row["text"] for row in request.messages if row["role"] == "user")
        found = _MODULE.search(said)
        if found is None:
            raise GoalLost(f"no module is named in {said[:200]!r}; the brief must stay in sight")
        return self._modules.setdefault(found[1], Conversation(within=found[1]))


@dataclass
class Conversation:
    """One session as its model sees it.

    Attributes:
        lead: Whether it may delegate.
        within: The folder it keeps to; "" for everything.
    """

    lead: bool = False
    within: str = ""
    found: Findings = field(default_factory=Findings)
    words: Words = field(default_factory=lambda: words_for(""))
    answered: set[str] = field(default_factory=set)
    facts: list[str] = field(default_factory=list)
    remembered: set[str] = field(default_factory=set)
    searched: set[str] = field(default_factory=set)
    delegated: tuple[str, ...] = ()
    conclusions: list[str] = field(default_factory=list)
    owed: list[str] = field(default_factory=list)
    marks: list[tuple[str, str]] = field(default_factory=list)
    reread: set[str] = field(default_factory=set)
    left: int = 0
    step: int = 0

    def read(self, request: Request) -> None:
        """Take in what the request shows that was not shown before."""
        rows = request.messages
        called = {c["id"]: c["name"] for row in rows for c in row["tool_calls"] if isinstance(c, dict)}
        self.marks = []
        for row in rows:
            text = _TAG.sub("", row["text"])
            if row["role"] == "tool":
                self._read_result(str(row["tool_call_id"]), called.get(row["tool_call_id"], ""), text)
            elif text.startswith(_MEMORY) and (known := _KNOWN.search(text)):
                self.facts = [line[2:] for line in known[1].splitlines() if line.startswith("- ")]
        if rows[-1]["role"] == "user" and not rows[-1]["text"].startswith(_MEMORY):
            text = rows[-1]["text"]
            self.words = words_for(text)
            asked = _STEPS.search(text)
            self.left = int(asked[1]) if asked else 0

    def _read_result(self, call: str, tool: str, text: str) -> None:
        if mark := _STORED.search(text):
            self.marks.append((mark[1], mark[2]))
        if call in self.answered:
            return
        self.answered.add(call)
        if mark and tool in ("search", "list_dir", "read_file"):
            # Too large to come in; its preview is not the whole.
            self.owed.append(mark[1])
        elif tool == "delegate":
            self.conclusions.append(text)
        elif tool != "ctx_memory":
            self.found.learn(text)

    def reply(self) -> Reply:
        """The next message: some calls with the reason for them, or an answer when the steps are used."""
        self.step += 1
        self.left -= 1
        if self.left <= 0:
            return Reply(self._answer())
        for choose in (self._begin, self._owed, self._delegate, self._widen, self._go_on):
            if reply := choose():
                return reply
        return Reply(self._answer())

    def _begin(self) -> Reply | None:
        top = self.within or "."
        if top not in self.found.listed:
            return _call(self.words.look.format(path=top), "list_dir", path=top)
        # The top level is worth a look before any file: it says where the weight lies.
        roots = [p for p in self.found.next_folders(self.within) if p.count("/") == 0]
        return _call(self.words.look.format(path=roots[0]), "list_dir", path=roots[0]) if roots else None

    def _owed(self) -> Reply | None:
        if not self.owed:
            return None
        path = self.owed.pop(0)
        return _call(self.words.owed, "file_read", path=path)

    def _delegate(self) -> Reply | None:
        if not self.lead or self.delegated:
            return None
        modules = self.found.largest(DELEGATED)
        if len(modules) < DELEGATED:
            return None
        self.delegated = tuple(modules)
        calls = tuple(
            ToolCall("delegate", {"agent": "reader", "brief": self.words.brief.format(module=module)})
            for module in modules
        )
        return Reply(self.words.delegate.format(modules=", ".join(modules)), calls)

    def _widen(self) -> Reply | None:
        """A search, a fact or a look back, when its turn has come and there is something to do."""
        if self.step % _REMEMBER_EVERY == 0 and self.lead and (fact := self._fact()):
            return _call(self.words.remember, "ctx_memory", action="write", content=fact[1], category=fact[0])
        if self.step % _READ_BACK_EVERY == 0:
            for path, tag in reversed(self.marks):
                if path not in self.reread:
                    self.reread.add(path)
                    return _call(self.words.read_back.format(tag=tag), "file_read", path=path)
        if self.step % _SEARCH_EVERY == 0 and self.lead:
            if not self.searched and self.delegated:
                # Early on, everything defined in the largest package: far more than should come in at once.
                self.searched.add(_DEFINITIONS)
                top = max((p for p in self.found.folders if "/" not in p), key=self.found.folders.__getitem__)
                return _call(self.words.classes.format(path=top), "search", pattern=_DEFINITIONS, path=top)
            for seen in self.found.central():
                if seen.name not in self.searched:
                    self.searched.add(seen.name)
                    reason = self.words.search.format(name=seen.name, count=self.found.mentions[seen.name])
                    return _call(reason, "search", pattern=rf"\b{seen.name}\(")
        return None

    def _go_on(self) -> Reply | None:
        """The next pages: of what is open, else of the file that what was read leans on most."""
        known = self.found
        for path in known.open_files():
            at, total = known.offsets[path], known.sizes[path]
            pages = range(at, min(total, at + 2 * PAGE_LINES), PAGE_LINES)
            calls = tuple(ToolCall("read_file", {"path": path, "offset": page}) for page in pages)
            return Reply(self.words.more.format(path=path, line=at + 1, total=total), calls)
        folders = known.next_folders(self.within, self.delegated)
        files = known.next_files(self.within, self.delegated)
        if folders and (not files or known.imports_of(folders[0]) >= known.imports_of(files[0])):
            return _call(self.words.look.format(path=folders[0]), "list_dir", path=folders[0])
        if not files:
            return None
        count = known.imports_of(files[0])
        reason = self.words.imported.format(path=files[0], count=count) if count else self.words.next
        return Reply(reason, tuple(ToolCall("read_file", {"path": path}) for path in files[:2]))

    def _fact(self) -> tuple[str, str] | None:
        """Category and text of the weightiest thing that is not remembered yet; constants in between."""
        if len(self.remembered) % 3 == 2:
            for name, (value, path) in sorted(self.found.constants.items()):
                if name not in self.remembered:
                    self.remembered.add(name)
                    return "CONFIG_VALUES", self.words.constant.format(name=name, value=value, path=path)
        for seen in self.found.central():
            if seen.name not in self.remembered:
                self.remembered.add(seen.name)
                return "ARCHITECTURE", self.words.fact(seen)
        return None

    def _answer(self) -> str:
        if not self.found.offsets and self.facts:
            return "\n".join(
                [self.words.recalled.format(count=len(self.facts)), *(f"- {f}" for f in self.facts)]
            )
        central: list[ClassSeen] = self.found.central(self.within)[:6]
        lines = [
            self.words.read.format(
                where=self.within
                or ", ".join(sorted({p.partition("/")[0] for p in self.found.offsets}))
                or ".",
                files=len(self.found.offsets),
                lines=self.found.lines.total(),
            )
        ]
        lines += [f"- {self.words.fact(seen)}" for seen in central]
        hubs = list(sorted(self.found.offsets, key=lambda p: (-self.found.imports_of(p), p))[:3])
        lines += [
            f"- {self.words.hub.format(path=p, count=self.found.imports_of(p))}"
            for p in hubs
            if self.found.imports_of(p)
        ]
        if self.conclusions:
            lines.append(
                self.words.concluded.format(count=len(self.conclusions), modules=", ".join(self.delegated))
            )
        return "\n".join(lines)


def _call(reason: str, name: str, **args: Any) -> Reply:
    return Reply(reason, (ToolCall(name, args),))
