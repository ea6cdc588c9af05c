"""A sub-agent that a LangGraph server runs: the same brief, purse, conclusion and evidence, by `RemoteGraph`.

The whole grant is held here while it works there, and what it reports is booked when it returns. Its log
stays where it was made; `archive_graph`, served beside it, opens it tag by tag.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from headwater.memory import Memory
from headwater.memory.ledger import Spend
from headwater.nodes.purse import LIMITS
from headwater.nodes.read_back import EXPAND_TOKENS, expand, read

if TYPE_CHECKING:
    from langgraph.pregel.remote import RemoteGraph

PLACE = "remote"
ANYONE = "default"
"""The tenant of a memory that names none."""
_LIMITS = ("steps", "tokens", "cost")


@dataclass(frozen=True)
class Remote:
    """Where a sub-agent runs.

    Attributes:
        url: A LangGraph server.
        assistant: The name of the governed graph in its `langgraph.json`.
        archive: The name of its `archive_graph`; "" where it serves none, so that evidence stays closed.
        headers: For every request.
    """

    url: str
    assistant: str
    archive: str = ""
    headers: Mapping[str, str] | None = None

    def graph(self) -> "RemoteGraph":
        """The sub-agent on the server; its connections end with `aclose` of the client it holds."""
        from langgraph.pregel.remote import RemoteGraph
        from langgraph_sdk import get_client

        client = get_client(url=self.url, headers=dict(self.headers or {}))
        return RemoteGraph(self.assistant, client=client)

    def look(self, **what: Any) -> str:
        """Ask the server's archive."""
        from langgraph.pregel.remote import RemoteGraph
        from langgraph_sdk import get_sync_client

        with get_sync_client(url=self.url, headers=dict(self.headers or {})) as client:
            return str(RemoteGraph(self.archive, sync_client=client).invoke(what)["text"])


class Look(TypedDict):
    """What `archive_graph` is asked, and answers in `text`."""

    session: NotRequired[str]
    tags: NotRequired[str]
    path: NotRequired[str]
    offset: NotRequired[int]
    char_offset: NotRequired[int | None]
    tokens: NotRequired[int]
    text: NotRequired[str]


def archive_graph(memory: Memory) -> CompiledStateGraph[Look, None, Look, Look]:
    """A graph that opens a server's archive and artifacts to agents elsewhere; serve it beside the agent."""

    def look(state: Look) -> Look:
        tokens = min(EXPAND_TOKENS, int(state.get("tokens", EXPAND_TOKENS)))
        session = state.get("session", "")
        try:
            if path := state.get("path"):
                at = state.get("char_offset")
                return {"text": read(memory, path, state.get("offset", 0), 2_000, at, tokens)}
            return {"text": expand(memory, session, session, state.get("tags", ""), tokens)}
        except ToolException as error:
            return {"text": f"Error: {error}"}

    graph: StateGraph[Look, None, Look, Look] = StateGraph(Look)
    graph.add_node("look", look)
    graph.add_edge(START, "look")
    graph.add_edge("look", END)
    return graph.compile(name="archive")


def thread_of(session: str) -> str:
    """The server's thread for a session: servers name threads by UUID, and the same session is the same."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"headwater:{session}"))


def remote_config(
    config: RunnableConfig, limits: Mapping[str, float], tenant: str = ANYONE
) -> RunnableConfig:
    """What crosses to the server: the thread, what may be spent, the recursion limit and the tenant.

    Whose facts they are is said where the run or the memory names a tenant; the window is the server's. A
    server takes settings or a context, not both, and makes the context that the graph reads of the former.
    """
    session = str((config.get("configurable") or {})["thread_id"])
    # JSON has no infinity.
    finite = {name: value for name, value in limits.items() if value < 1e18}
    own = {} if tenant == ANYONE else {"tenant": tenant}
    return {
        "configurable": {"thread_id": thread_of(session), LIMITS: finite, **own},
        "recursion_limit": config.get("recursion_limit", 100),
    }


def received(chunk: Any) -> dict[str, Any]:
    """A state that came over the wire, its messages as messages."""
    state = dict(chunk or {})
    state["messages"] = [as_message(m) for m in state.get("messages") or []]
    return state


def as_message(data: Any) -> BaseMessage:
    """A message from its JSON form, with what governance wrote on it."""
    if isinstance(data, BaseMessage):
        return data
    (message,) = convert_to_messages([data])
    for name in ("response_metadata", "additional_kwargs"):
        if isinstance(data, Mapping) and data.get(name):
            setattr(message, name, {**getattr(message, name), **data[name]})
    if isinstance(message, AIMessage) and isinstance(data, Mapping) and data.get("usage_metadata"):
        message.usage_metadata = data["usage_metadata"]
    return message


def reported(state: Mapping[str, Any]) -> Spend:
    """What a remote agent says it has spent."""
    purse = state.get("purse") or {}
    return Spend(*(float(purse.get(name, 0)) for name in _LIMITS))


def look_up(place: Mapping[str, Any], **what: Any) -> str:
    """Ask the archive of the server where a sub-agent ran."""
    remote = Remote(str(place["url"]), str(place["assistant"]), str(place["archive"]))
    return remote.look(**what)
