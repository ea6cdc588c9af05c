"""Children that nobody waits for: begun with a handle, told of in a note, collected or cancelled by tools.

They live in this process. What a child has concluded is in the ledger and outlives it; one that was cut with
its process is told as lost, and can be delegated again.
"""

import asyncio
import contextvars
import threading
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, ToolException
from langgraph.prebuilt import InjectedState

from headwater.nodes import loop
from headwater.nodes.children import conclude, concluded
from headwater.nodes.conclusion import MAX_CONCLUSION, Conclusion, within
from headwater.nodes.delegation import digest_of
from headwater.nodes.lean_tool import lean_tool
from headwater.nodes.run import Run
from headwater.nodes.spans import lasting
from headwater.window.clean import condense

if TYPE_CHECKING:
    from headwater.nodes.engine import Engine

COLLECT_SECONDS = 60.0
NOTE_TOKENS = 120
_NOTE = {
    "en": "[background] {handle} ({agent}) ended: {status}. {answer}\nThe conclusion: collect({handle!r})",
    "zh": "[后台] {handle}（{agent}）已结束：{status}。{answer}\n取回结论：collect({handle!r})",
}


@dataclass
class Begun:
    """A child in the background."""

    run: Run
    brief: str
    future: "Future[Conclusion]"
    told: bool = False


@dataclass
class Background:
    """The background children of one agent in this process, by handle."""

    begun: dict[str, Begun] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, engine: "Engine", run: Run, config: RunnableConfig) -> Conclusion:
        """Start a child; the same brief in flight is not started twice, the handle is the first one's."""
        brief = digest_of(run.order["call"]["args"])
        parent = run.order["parent"]
        with self.lock:
            for handle, known in self.begun.items():
                same = known.run.order["parent"] == parent and known.brief == brief
                if same and not known.future.done():
                    return _handle(handle, "This very brief is being worked on already.")
            # Its events would reach a stream that has ended; the caller's callbacks hear of it all the same.
            run.write = lambda event: None
            quiet: RunnableConfig = {"configurable": dict(config.get("configurable") or {})}
            quiet["callbacks"] = lasting(config)
            future = loop.start(lambda: conclude(engine, run, quiet), contextvars.Context())
            self.begun[run.session] = Begun(run, brief, future)
        return _handle(run.session, "Begun in the background.")

    def cancel(self, engine: "Engine", handle: str) -> Conclusion:
        """End a child; what it has done so far is its conclusion."""
        known = self.begun.get(handle)
        if known is None or known.future.done():
            return self.conclusion(engine, handle, 0)
        loop.cancel(known.future)
        try:
            return known.future.result(loop.GRACE)
        except (asyncio.CancelledError, CancelledError, FutureTimeout):
            conclusion = concluded(engine, known.run, asyncio.CancelledError())
        engine.memory.delegations.conclude(handle, known.brief, conclusion.to_dict())
        return conclusion

    def conclusion(self, engine: "Engine", handle: str, seconds: float) -> Conclusion:
        """The conclusion of a child, waiting for it so long.

        Raises:
            ToolException: There is no such child, it is lost, or it is still at work.
        """
        known = self.begun.get(handle)
        if known is None or known.future.done():
            stored = engine.memory.delegations.concluded(handle)
            if stored is not None:
                return Conclusion.from_dict(stored)
            if known is None:
                raise ToolException(
                    f"{handle!r} is not at work here: the name is wrong, or its process has ended before it "
                    "concluded; delegate it again"
                )
        try:
            return known.future.result(seconds)
        except FutureTimeout:
            raise ToolException(self.progress(engine, handle)) from None
        except Exception as error:  # noqa: BLE001 - a refusal to begin, a full disk: told, not raised
            return Conclusion("failed", "The sub-agent gave no answer.", handle, reason=str(error))

    def progress(self, engine: "Engine", handle: str) -> str:
        """How far a child is."""
        spent = engine.memory.ledger.spent(handle)
        return f"{handle} is at work: {spent.steps:.0f} steps, {spent.tokens:,.0f} tokens so far"

    def notes(self, engine: "Engine", session: str, language: str) -> list[str]:
        """A note for each child of a session that has ended since the last time."""
        found = []
        with self.lock:
            ended = [
                (handle, known)
                for handle, known in self.begun.items()
                if known.future.done() and not known.told and known.run.order["parent"] == session
            ]
            for handle, known in ended:
                known.told = True
                conclusion = self.conclusion(engine, handle, 0)
                answer = condense(conclusion.answer, NOTE_TOKENS)
                words = _NOTE.get(language, _NOTE["en"])
                agent = known.run.spec.name
                found.append(
                    words.format(handle=handle, agent=agent, status=conclusion.status, answer=answer)
                )
        return found


def background_tools(engine: "Engine") -> list[BaseTool]:
    """`check`, `collect` and `cancel` for delegations that nobody waits for."""

    def check(
        handle: str,
        state: Annotated[dict[str, Any] | None, InjectedState] = None,
        config: Annotated[RunnableConfig | None, InjectedToolArg] = None,
    ) -> str:
        """See how far a sub-agent in the background is."""
        _own(engine, handle, state, config)
        known = engine.background.begun.get(handle)
        if known is not None and not known.future.done():
            return engine.background.progress(engine, handle)
        return f"{handle} has ended: {engine.background.conclusion(engine, handle, 0).status}"

    def collect(
        handle: str,
        seconds: float = 0,
        state: Annotated[dict[str, Any] | None, InjectedState] = None,
        config: Annotated[RunnableConfig | None, InjectedToolArg] = None,
    ) -> str:
        """Get the conclusion of a sub-agent in the background; seconds: how long to wait for it, up to 60."""
        own = _own(engine, handle, state, config)
        found = engine.background.conclusion(engine, handle, max(0.0, min(seconds, COLLECT_SECONDS)))
        known = engine.background.begun.get(handle)
        if known is not None:
            known.told = True
        return _shown(engine, found, own)

    def cancel(
        handle: str,
        state: Annotated[dict[str, Any] | None, InjectedState] = None,
        config: Annotated[RunnableConfig | None, InjectedToolArg] = None,
    ) -> str:
        """End a sub-agent in the background; you get what it has done so far."""
        own = _own(engine, handle, state, config)
        found = engine.background.cancel(engine, handle)
        known = engine.background.begun.get(handle)
        if known is not None:
            known.told = True
        return _shown(engine, found, own)

    return [lean_tool(function) for function in (check, collect, cancel)]


def _own(engine: "Engine", handle: str, state: Any, config: RunnableConfig | None) -> str:
    own = engine.frame(state or {}, config).session
    if not handle.startswith(own + "/"):
        raise ToolException(f"{handle!r} is no handle of this session; handles look like '{own}/12.1'")
    return own


def _shown(engine: "Engine", conclusion: Conclusion, own: str) -> str:
    share = min(MAX_CONCLUSION, engine.lines.window // 16)
    return within(conclusion, share, engine.memory, own).text()


def _handle(handle: str, how: str) -> Conclusion:
    text = f"{how} Handle: {handle}. A note will tell when it ends; check, collect or cancel it by handle."
    return Conclusion("done", text, handle)
