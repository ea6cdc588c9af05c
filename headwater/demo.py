"""The demo: an agent explores a code base many times larger than its window, and is judged at the end.

Without a model of one's own a scripted explorer plays it, behind a server on this machine that enforces a
real provider's rules and window. The figures are measured during the run.
"""

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphRecursionError
from rich.console import Console

from headwater.demo_checks import Outcome, report
from headwater.demo_screen import Screen
from headwater.demo_witness import Witness
from headwater.demo_words import READER, READER_FOR, RECALL, ROUNDS, SYSTEM, Words
from headwater.graph import SubAgent, build_agent
from headwater.lab.codebase_tools import Codebase
from headwater.memory import Memory
from headwater.nodes.subagent import delegate_tool
from headwater.real_model import chosen_model
from headwater.window.face import text_of
from headwater.window.policy import WindowPolicy
from headwater.window.sizes import window_of
from headwater.window.tokens import count_text, count_tools

PACKAGES = ("langgraph", "langchain_core")
FIRST, SECOND = "explore", "recall"
DEFAULT_STEPS, DEFAULT_WINDOW = 360, 32_000
# The first round ends early enough that its facts are kept while the second still explores.
_FIRST_SHARE = 0.4
_NODES_A_STEP = 10


class FolderInUse(ValueError):
    """The folder for the demo holds something already; `chinese` says so too."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{str(folder)!r} exists and is not an empty folder; name another for --keep")
        self.chinese = f"{str(folder)!r} 已存在，而且不是空目录；请用 --keep 给出另一个"


@dataclass(frozen=True)
class Options:
    """What a user chooses.

    Attributes:
        model: "provider:name"; None plays the scripted explorer.
        window: Tokens the model may see, and no more.
        language: "en" or "zh".
        keep: The folder to leave everything in; None makes one among the temporary files.
        steps: Model calls of the main agent in its first two rounds.
    """

    model: str | None = None
    window: int = DEFAULT_WINDOW
    language: str = "en"
    keep: Path | None = None
    steps: int = DEFAULT_STEPS


class Models(NamedTuple):
    """The three models of a run; `provider` is the strict server's, None with a real model."""

    main: BaseChatModel
    reader: BaseChatModel
    summarizer: BaseChatModel
    provider: Any = None


@dataclass
class Run:
    """One run: what it works with and what has come of it so far."""

    options: Options
    models: Models
    folder: Path
    code: Codebase
    screen: Screen
    witness: Witness
    events: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)

    def tools(self) -> list[BaseTool]:
        """The code base's tools, for the agent and its readers alike."""
        return self.code.tools()

    def reader(self) -> SubAgent:
        """The sub-agent that reads one module."""
        language = self.options.language
        return SubAgent(
            "reader", READER_FOR[language], READER[language], self.tools(), model=self.models.reader
        )

    def session(self, thread: str, prompts: list[str], steps: int) -> None:
        """Run one session, a round a prompt, in a memory opened anew on the same folder."""
        database = sqlite3.connect(self.folder / "checkpoints.sqlite", check_same_thread=False)
        try:
            with Memory(self.folder) as memory:
                agent = build_agent(
                    self.models.main,
                    tools=self.tools(),
                    system_prompt=SYSTEM[self.options.language],
                    subagents=[self.reader()],
                    summarizer=self.models.summarizer,
                    policy=WindowPolicy(window=self.options.window),
                    memory=memory,
                    checkpointer=SqliteSaver(database),
                )
                for prompt in prompts:
                    self._round(agent, thread, prompt, steps)
        finally:
            database.close()

    def _round(self, agent: Any, thread: str, prompt: str, steps: int) -> None:
        config = {
            "configurable": {"thread_id": thread},
            "callbacks": [self.witness],
            "recursion_limit": (steps + 20) * _NODES_A_STEP,
        }
        try:
            given = {"messages": [HumanMessage(prompt)]}
            for event in agent.stream(given, config, stream_mode="custom", durability="exit"):
                self.events.append(event)
                self.screen.event(event)
        except GraphRecursionError:
            self.screen.note(self.screen.words("cut"))
        messages = agent.get_state(config).values.get("messages") or []
        self.answers[thread] = text_of(messages[-1]) if messages else ""


def run_demo(options: Options, console: Console) -> int:
    """Run the demo and print what came of it.

    Returns:
        0 when every check holds, 1 when one does not, 130 when it was interrupted.

    Raises:
        FolderInUse: `options.keep` is not empty.
        ModelUnavailable: The real model cannot be used; see `real_model`.
        PolicyError, WindowTooSmall: No step fits the window that was asked for.
    """
    words = Words(options.language)
    WindowPolicy(window=options.window).lines()
    code = Codebase.installed(*PACKAGES)
    with _models(options) as models:
        folder = _folder(options.keep)
        console.print(
            words(
                "title",
                packages=" + ".join(PACKAGES),
                files=len(code.files),
                lines=sum(code.files.values()),
                window=options.window,
            ),
            style="bold",
        )
        head = words("real", model=options.model, window=options.window)
        console.print(words("scripted", window=options.window) if options.model is None else head)
        console.print(words("folder", folder=folder), soft_wrap=True, highlight=False)
        first = max(1, round(options.steps * _FIRST_SHARE))
        prompts = [
            text.format(steps=n)
            for text, n in zip(ROUNDS[options.language], (first, options.steps - first, 0), strict=True)
        ]
        screen = Screen(console, words, options.steps + 2)
        witness = Witness(lambda text: screen.event({"type": "headwater.fact", "text": text}))
        run = Run(options, models, folder, code, screen, witness)
        begun = time.monotonic()
        try:
            with screen:
                run.session(FIRST, prompts, options.steps)
                screen.note(words("session"))
                run.session(SECOND, [RECALL[options.language]], 8)
        except KeyboardInterrupt:
            console.print(words("stopped", folder=folder), soft_wrap=True)
            return 130
        return report(_outcome(run, time.monotonic() - begun), console, words)


def _outcome(run: Run, seconds: float) -> Outcome:
    totals = run.models.provider.totals() if run.models.provider else None
    spec = run.reader()
    return Outcome(
        folder=run.folder,
        window=run.options.window,
        steps=run.options.steps,
        seconds=seconds,
        witness=run.witness,
        events=run.events,
        answers=run.answers,
        first=FIRST,
        second=SECOND,
        fixed_main=_fixed(SYSTEM[run.options.language], run.tools(), [spec]),
        fixed_reader=_fixed(spec.prompt, list(spec.tools), []),
        over_window=totals.over_window if totals else None,
        violations=totals.violations if totals else None,
        asked=totals.requests if totals else 0,
    )


def _fixed(system: str, tools: list[BaseTool], subagents: list[SubAgent]) -> int:
    """Tokens of what stands in every request of an unmanaged agent: system prompt and its own tools."""
    own = [*tools, delegate_tool(subagents)] if subagents else tools
    return count_text(system) + count_tools(own)


@contextmanager
def _models(options: Options) -> Iterator[Models]:
    """The real model in all three places, or the scripted ones."""
    if options.model is None:
        with scripted(options.window) as models:
            yield models
    else:
        model = chosen_model(options.model)
        yield Models(model, model, model)


@contextmanager
def scripted(window: int) -> Iterator[Models]:
    """The scripted explorer, its reader and its summarizer, behind a strict server in this process."""
    from headwater.lab.chronicler import chronicler
    from headwater.lab.explorer import Explorer
    from headwater.lab.provider import ModelSpec, StrictProvider, by_model

    cap = max(256, min(2_048, window // 8))
    own = ModelSpec(window, cap)
    # A cheap model with a window of its own, of the size that is assumed of an unknown one.
    windows = {"explorer": own, "reader": own, "summarizer": ModelSpec(window_of("summarizer").tokens)}
    explorer = Explorer()
    script = by_model({"explorer": explorer, "reader": explorer, "summarizer": chronicler})
    with StrictProvider(script, models=windows) as provider:
        main, reader = provider.openai("explorer", max_tokens=cap), provider.openai("reader", max_tokens=cap)
        summarizer = provider.openai("summarizer")
        yield Models(main, reader, summarizer, provider)


def _folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="headwater-demo-"))
    folder = keep.expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderInUse(keep)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
