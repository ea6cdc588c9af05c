"""One engine behind graph, nodes and middleware: what governance knows of one agent.

It holds no state of a session: that is in the frame. What it keeps (views, texts) it can compute again.
"""

import hashlib
import json
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool

from headwater.memory import Memory
from headwater.nodes.budget import Budget
from headwater.nodes.endpoints import endpoint_of
from headwater.nodes.state import State, Update
from headwater.nodes.told import ToldRows
from headwater.window.calibration import Meter, predict
from headwater.window.frame import Frame
from headwater.window.policy import Lines, WindowPolicy
from headwater.window.prices import Prices
from headwater.window.providers import Provider, provider_of
from headwater.window.render import Texts
from headwater.window.sizes import WindowSize, max_output_of, model_name, window_of
from headwater.window.stubs import encode
from headwater.window.tokens import count_text, count_tools
from headwater.window.view import View

if TYPE_CHECKING:
    from headwater.memory.project_docs import ProjectDocs
    from headwater.nodes.background_children import Background
    from headwater.nodes.delegation import SubAgent

_VIEWS = 64
DAY = 24 * 3600.0


class WindowTooSmall(ValueError):
    """The window cannot hold system prompt, tools and a first message; the message gives the sizes."""


@dataclass
class Engine:
    """What the nodes of one agent share.

    Attributes:
        model: The main model.
        memory: Archive, artifacts and facts.
        tools: Tools offered to the model, context tools included.
        system: The system prompt as sent.
        summarizer: A cheap model for summaries; None serves the deterministic digest.
        fallbacks: Asked in this order where the summarizer cannot serve.
        policy, prices: See their classes.
        clock: Seconds; only differences are used.
        budget: What it and all below it may use; None bounds only depth and number of sub-agents.
        subagents: What it may delegate to.
        delegated: Whether it is a sub-agent itself.
        docs: The project's documents for the baseline; None takes the memory's.
        profile: Whether the baseline tells what is kept about the user; the memory may say so too.
        output_cap: Tokens an answer may have, once a refusal has shown that the model's cap does not fit.
    """

    model: BaseChatModel
    memory: Memory
    tools: Sequence[Any] = ()
    system: str = ""
    summarizer: BaseChatModel | None = None
    fallbacks: Sequence[BaseChatModel] = ()
    policy: WindowPolicy = field(default_factory=WindowPolicy)
    prices: Prices = field(default_factory=Prices)
    clock: Callable[[], float] = time.time
    budget: Budget | None = None
    output_cap: int | None = None
    docs: "ProjectDocs | None" = None
    profile: bool = False
    subagents: Sequence["SubAgent"] = ()
    delegated: bool = False
    _views: "OrderedDict[str, View]" = field(default_factory=OrderedDict, init=False, repr=False)
    _texts: "OrderedDict[str, str]" = field(default_factory=OrderedDict, init=False, repr=False)
    ahead: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """By session, the last tag that background runs are known to have told; a hint, the archive knows."""
    bounds: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """By "model@endpoint", tokens that a model which tells history has refused without stating its limit."""
    told: ToldRows = field(default_factory=ToldRows, init=False, repr=False)
    """The compartments that were read last."""
    _window: WindowSize | None = field(default=None, init=False, repr=False)
    _cut: tuple[int, float] | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    @cached_property
    def provider(self) -> Provider:
        """The rules of the provider that requests go to."""
        return provider_of(self.model, explicit=self.policy.provider)

    @property
    def window(self) -> WindowSize:
        """The window in tokens and where the number came from.

        A limit that the provider has proved outweighs a larger assumption, a setting by hand included: only
        a refusal is proof (M17), and the lower value holds (G33).
        """
        if self._window is None:
            assumed = window_of(self.model, explicit=self.policy.window)
            proved = self.memory.limits.get(self.endpoint, self.clock())
            lower = proved is not None and proved < assumed.tokens
            self._window = WindowSize(proved, "learned") if proved is not None and lower else assumed
            if self._cut is not None and self._cut[0] < self._window.tokens:
                self._window = WindowSize(self._cut[0], "cut")
        return self._window

    def learn(self, limit: int) -> None:
        """Take in the window that a refusal has proved, for this process and the next."""
        self.memory.limits.learn(self.endpoint, limit, self.clock())
        self._sized()

    def beware(self, limit: int) -> None:
        """Take in the window to which prompts seem to be cut: no refusal proves it, so nothing is kept."""
        self._cut = (limit, self.clock())
        self._sized()

    def probe(self) -> None:
        """Forget the window to which prompts seemed to be cut, once that is a day ago."""
        if self._cut is not None and not 0 <= self.clock() - self._cut[1] <= DAY:
            self._cut = None
            self._sized()

    def _sized(self) -> None:
        self._window = None
        self.__dict__.pop("lines", None)

    def cap_output(self, tokens: int) -> None:
        """From now on an answer may have so many tokens at the most."""
        self.output_cap = tokens
        self.__dict__.pop("lines", None)

    @property
    def endpoint(self) -> str:
        """ "model@endpoint": the same name may be served with another window elsewhere."""
        return endpoint_of(self.model)

    @cached_property
    def lines(self) -> Lines:
        """The lines of this agent's window; what the request may put out is reserved in full."""
        return self._lines(self.window.tokens)

    def _lines(self, window: int) -> Lines:
        cap = self.output_cap or _output_cap(self.model)
        policy = self.policy if self.policy.window is None else self.policy.with_window(window)
        if cap is not None and policy.output_reserve is None:
            policy = replace(policy, output_reserve=min(cap, window - 1))
        return policy.lines(window, max_output_of(self.model))

    @property
    def reserve(self) -> int:
        """Tokens kept free for an answer."""
        return self.lines.window - self.lines.usable

    @cached_property
    def background(self) -> "Background":
        """The sub-agents of this agent that nobody waits for."""
        from headwater.nodes.background_children import Background

        return Background()

    @cached_property
    def fixed_tokens(self) -> int:
        """Tokens of the tool schemas, which stand in every request."""
        return count_tools(self.tools)

    @cached_property
    def identity(self) -> str:
        """Digest of model, system prompt and tools; when it changes the whole prefix does."""
        schemas = [json.dumps(_schema(tool), sort_keys=True) for tool in self.tools]
        return _digest(model_name(self.model), self.system, *schemas)

    @property
    def historians(self) -> list[BaseChatModel]:
        """The models that tell history, the first to be asked first; none leaves it to the digest."""
        return [] if self.summarizer is None else [self.summarizer, *self.fallbacks]

    @property
    def works_ahead(self) -> bool:
        """Whether history is told beside the steps, before it must be (G1)."""
        return self.summarizer is not None and self.policy.background and self.policy.summarise != "never"

    def check(self) -> None:
        """Refuse a window in which no step fits.

        Raises:
            WindowTooSmall: System prompt and tools reach the first line.
        """
        if not self.fits(self.window.tokens):
            fixed = self.fixed_tokens + count_text(self.system)
            raise WindowTooSmall(
                f"system prompt and tools take {fixed:,} tokens, but a window of {self.lines.window:,} "
                f"has room for {self.lines.offload:,} before its first line; "
                "shorten them, offer fewer tools, or set WindowPolicy(window=...) larger"
            )

    def fits(self, window: int) -> bool:
        """Whether a window of so many tokens has room for more than system prompt and tools."""
        return self.fixed_tokens + count_text(self.system) < self._lines(window).offload

    def frame(self, state: Mapping[str, Any], config: RunnableConfig | None = None) -> Frame:
        """The frame in a state; a new session gets its name from the thread, else by chance.

        A new session, and one that has come to another model, starts with what is known of the model's count.
        """
        frame = frame_in(state, config)
        if state.get("frame") and frame.meter.model in ("", self.endpoint):
            return frame
        return frame.with_(scale=self.memory.scales.get(self.endpoint) or 1.0, meter=Meter())

    def texts(self, frame: Frame) -> Texts:
        """The texts that a frame names."""
        return Texts(self.system, *map(self.text, (frame.contract, frame.baseline, frame.delta)))

    def text(self, name: str) -> str:
        """The text of an artifact by name, "" for no name; the newest are kept at hand."""
        if not name:
            return ""
        known = self._texts.get(name)
        if known is None:
            known = self.memory.artifacts.read_bytes(name).decode("utf-8", "surrogatepass")
            self._keep_text(name, known)
        return known

    def store_text(self, text: str, frame: Frame) -> str:
        """Put a text of a session's frame among the artifacts; returns its name, "" for no text."""
        if not text:
            return ""
        name = self.memory.artifacts.put(encode(text), session=frame.session, tag=frame.boundary)
        self._keep_text(name, text)
        return name

    @contextmanager
    def view(self, frame: Frame, messages: Sequence[BaseMessage]) -> Iterator[View]:
        """The session's view, up to date; a run beside this one gets a view of its own."""
        with self._lock:
            view = self._views.pop(frame.session, None) or View(self.provider)
        view.sync(frame, messages, self.texts(frame))
        try:
            yield view
        finally:
            with self._lock:
                self._views[frame.session] = view
                while len(self._views) > _VIEWS:
                    self._views.popitem(last=False)

    def room(self, view: View) -> int:
        """Tokens that system prompt, tools, m[0] and m[1] leave before the first line."""
        return max(0, self.lines.offload - self.fixed_tokens - view.head_tokens)

    def estimate(self, frame: Frame, view: View) -> int:
        """Input tokens of the next request, tool schemas included, calibrated by what was reported."""
        return self.charged(frame, view.tokens)

    def charged(self, frame: Frame, tokens: int) -> int:
        """Input tokens that a request of `tokens` counted tokens is charged, tool schemas added."""
        return predict(frame.scale, frame.meter, tokens + self.fixed_tokens, frame.revision)

    def _keep_text(self, name: str, text: str) -> None:
        with self._lock:
            self._texts[name] = text
            while len(self._texts) > _VIEWS:
                self._texts.popitem(last=False)


def frame_in(state: Mapping[str, Any], config: RunnableConfig | None = None) -> Frame:
    """The frame in a state; a new session gets its name from the thread, else by chance."""
    frame = Frame.from_state(state.get("frame"), state.get("edits"), state.get("hints"))
    if frame.session:
        return frame
    thread = ((config or {}).get("configurable") or {}).get("thread_id")
    return frame.with_(session=str(thread) if thread else uuid.uuid4().hex)


def saved(frame: Frame, **channels: Any) -> Update:
    """A node's return: the frame for its channel, beside other channels."""
    return {"frame": frame.to_state(), **channels}


def revised(frame: Frame, *parts: object) -> str:
    """The revision after a change: equal histories of changes give equal revisions."""
    return _digest(frame.revision, *parts)


def live(state: State) -> list[BaseMessage]:
    """The messages of a state; the channel's own list, not to be changed."""
    return cast(list[BaseMessage], state.get("messages") or [])


def _digest(*parts: object) -> str:
    return hashlib.sha256("\x00".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _schema(tool: Any) -> Any:
    """A tool's definition; a provider's own tools are dicts that are sent as they are."""
    return tool if isinstance(tool, dict) else convert_to_openai_tool(tool)


def _output_cap(model: BaseChatModel) -> int | None:
    """The output cap that the model sends with every request; None where it sends none."""
    for name in ("max_tokens", "max_output_tokens", "max_completion_tokens"):
        value = getattr(model, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None
