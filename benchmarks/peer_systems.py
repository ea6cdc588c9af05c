"""The systems that are compared: ours, the usual threshold, and peers with their defaults and tuned.

Each peer is built as its documentation builds it. What they are given beyond their defaults is in the texts
of `SYSTEMS`, which the report prints. Fractions are of the window, which every model knows by its profile.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
    ToolCallRequest,
)

from benchmarks.economy import ThresholdPolicy
from benchmarks.optimum import Never
from benchmarks.peer_replay import ANY_WINDOW, CHEAP, Answer, Build, Cell, Seat, play_peer
from headwater.lab.chronicler import chronicler
from headwater.lab.provider import StrictProvider
from headwater.lab.replay import ReplayReport, replay
from headwater.lab.sessions import Session
from headwater.window import WindowPolicy

Play = Callable[[Session, int], Cell]


class System(NamedTuple):
    """One row of the table: what it is, how it plays a session, and the package it needs beyond ours."""

    what: str
    play: Play
    package: str = ""


class Recorded(AgentMiddleware[Any, Any]):
    """Every tool call is answered as recorded, whichever tools the agent brings along."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """The recorded result."""
        return self._answer(dict(request.tool_call))


def plain(seat: Seat, *middleware: AgentMiddleware[Any, Any]) -> Any:
    """LangChain's agent with some middleware."""
    return create_agent(
        seat.main,
        seat.tools,
        system_prompt=seat.system,
        middleware=[*middleware, Recorded(seat.answer)],
        checkpointer=seat.saver,
    )


def summarization(seat: Seat) -> Any:
    """Its defaults, but for a trigger, which it has none of."""
    return plain(seat, SummarizationMiddleware(seat.teller, trigger=("fraction", 0.8)))


def summarization_tuned(seat: Seat) -> Any:
    """Keeps by tokens, and shows the summariser all that leaves."""
    tuned = SummarizationMiddleware(
        seat.teller, trigger=("fraction", 0.8), keep=("fraction", 0.3), trim_tokens_to_summarize=None
    )
    return plain(seat, tuned)


def clearing(seat: Seat) -> Any:
    """Its defaults: from 100,000 tokens on, all tool results but three."""
    return plain(seat, ContextEditingMiddleware())


def clearing_tuned(seat: Seat) -> Any:
    """From half the window on."""
    return plain(seat, ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=seat.window // 2)]))


def langmem(seat: Seat, *, before: float | None = None, summary: int = 256) -> Any:
    """The summarization node as the hook before the model, as its documentation has it."""
    from langgraph.prebuilt import ToolNode, create_react_agent
    from langgraph.prebuilt.chat_agent_executor import AgentState

    node = import_module("langmem.short_term").SummarizationNode(
        model=seat.teller,
        max_tokens=int(0.8 * seat.window),
        max_tokens_before_summary=None if before is None else int(before * seat.window),
        max_summary_tokens=summary,
        output_messages_key="llm_input_messages",
    )

    class Remembering(AgentState):
        context: dict[str, Any]

    tools = ToolNode(seat.tools, wrap_tool_call=lambda request, _: seat.answer(dict(request.tool_call)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return create_react_agent(
            seat.main,
            tools,
            prompt=seat.system,
            pre_model_hook=node,
            state_schema=Remembering,
            checkpointer=seat.saver,
        )


def deepagents(seat: Seat, *middleware: Any) -> Any:
    """The deep agent; the session's tools beside its own, which win where names are the same."""
    made = import_module("deepagents")
    own = {"ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep", "execute", "task"}
    return made.create_deep_agent(
        seat.main,
        [tool for tool in seat.tools if tool.name not in own],
        system_prompt=seat.system,
        middleware=[*middleware, Recorded(seat.answer)],
        checkpointer=seat.saver,
    )


def deepagents_tuned(seat: Seat) -> Any:
    """Earlier, keeping more, evicting smaller results, with a cheap summariser."""
    state = import_module("deepagents.backends").StateBackend()
    telling = import_module("deepagents.middleware.summarization").SummarizationMiddleware(
        seat.main,
        backend=state,
        trigger=("fraction", 0.8),
        keep=("fraction", 0.3),
        trim_tokens_to_summarize=None,
        summarizer=seat.teller,
    )
    files = import_module("deepagents.middleware.filesystem").FilesystemMiddleware(
        backend=state, tool_token_limit_before_evict=2_000
    )
    return deepagents(seat, files, telling)


def ours(session: Session, window: int) -> Cell:
    """Our defaults; no model summarises."""
    return cell_of("ours", replay(session, WindowPolicy(window=window)))


def ours_told(session: Session, window: int) -> Cell:
    """With a model that summarises, in line so that every run is the same."""
    with StrictProvider(chronicler, window=ANY_WINDOW) as teller:
        model = teller.openai("strict-summarizer", purpose="summarizer")
        report = replay(session, WindowPolicy(window=window, background=False), model=model)
    return cell_of("ours, a model summarises", report)


def threshold(session: Session, window: int) -> Cell:
    """The usual policy on our graph, without tools to read anything back."""
    report = replay(session, ThresholdPolicy(window=window), assumed=Never(), context_tools=False)
    return cell_of("threshold", report, reach=False)


def cell_of(name: str, report: ReplayReport, *, reach: bool = True) -> Cell:
    account = report.account
    found = report.survived
    told = account.summary_tokens if account else 0
    within = len(found.in_reach) if reach else 0
    return Cell(
        system=name,
        window=report.window,
        session=report.name,
        log_tokens=report.log_tokens,
        steps=report.steps,
        recorded=report.recorded,
        cost=report.cost,
        unmanaged=report.unmanaged,
        told_calls=account.summary_calls if account else 0,
        told_tokens=told,
        told_cost=CHEAP * told,
        refused=report.totals.over_window,
        invalid=report.totals.violations,
        stopped=int(report.steps < report.recorded),
        largest=max((step.input for step in report.timeline), default=0),
        in_sight=len(found.in_sight),
        in_reach=within,
        lost=found.facts - len(found.in_sight) - within + report.damaged,
        by_step=[round(step.cost, 1) for step in report.timeline],
    )


def _peer(what: str, build: Build, package: str = "") -> tuple[str, Build, str]:
    return what, build, package


_PEERS: Mapping[str, tuple[str, Build, str]] = MappingProxyType(
    {
        "none": _peer("`create_agent` and nothing else", plain),
        "summarization": _peer("`SummarizationMiddleware`, trigger 0.8, else defaults", summarization),
        "summarization, tuned": _peer("trigger 0.8, keeps 0.3, nothing trimmed", summarization_tuned),
        "clearing": _peer("`ContextEditingMiddleware`, defaults (100,000 tokens, keeps 3 results)", clearing),
        "clearing, tuned": _peer("from half the window on", clearing_tuned),
        "langmem": _peer("`SummarizationNode`, 0.8 of the window, else defaults", langmem, "langmem"),
        "langmem, tuned": _peer(
            "summarises from 0.5 on, summaries of 1,000 tokens",
            lambda seat: langmem(seat, before=0.5, summary=1_000),
            "langmem",
        ),
        "deepagents": _peer(
            "`create_deep_agent`, defaults; the main model summarises", deepagents, "deepagents"
        ),
        "deepagents, tuned": _peer(
            "trigger 0.8, keeps 0.3, results over 2,000 tokens to files, a cheap summariser",
            deepagents_tuned,
            "deepagents",
        ),
    }
)


def _player(name: str, build: Build) -> Play:
    return lambda session, window: play_peer(name, build, session, window)


SYSTEMS: Mapping[str, System] = MappingProxyType(
    {
        "ours": System("defaults, the deterministic digest summarises", ours),
        "ours, a model summarises": System("the same with a cheap summariser, called in line", ours_told),
        "threshold": System("old results become stubs at 0.85, then a summary; no tools", threshold),
        **{n: System(what, _player(n, build), package) for n, (what, build, package) in _PEERS.items()},
    }
)


def installed(names: Iterable[str] = tuple(SYSTEMS)) -> list[str]:
    """The systems whose packages are here."""
    return [n for n in names if not SYSTEMS[n].package or find_spec(SYSTEMS[n].package) is not None]
