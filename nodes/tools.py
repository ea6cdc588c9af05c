"""Tools: run the calls of the newest arc, delegations apart; refuse what a stub was copied into."""

from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.prebuilt import ToolNode

from headwater.nodes.engine import Engine, live
from headwater.nodes.placed import Placed
from headwater.nodes.state import State, Update
from headwater.window.stubs import holds_stub

DELEGATE = "delegate"
REFUSED = (
    "Refused: an argument holds a ⟦stored …⟧ mark, which stands for text that left the window. It is not the "
    "text. Read the text back first (ctx_expand or file_read), then call again with the real value."
)


def tools(engine: Engine) -> Runnable[State, Update]:
    """A node that answers every call of the newest assistant message but delegations."""
    node = ToolNode([t for t in engine.tools if getattr(t, "name", "") != DELEGATE], handle_tool_errors=True)

    def run(state: State, config: RunnableConfig) -> Update:
        allowed, refused = _split(state)
        return _answered(node.invoke(allowed, config) if allowed else {}, refused)

    async def arun(state: State, config: RunnableConfig) -> Update:
        allowed, refused = _split(state)
        return _answered(await node.ainvoke(allowed, config) if allowed else {}, refused)

    return Placed(run, arun, name="tools")


def refusal_of(call: ToolCall) -> ToolMessage | None:
    """The result of a call that must not run, because a stub was copied into an argument."""
    if not holds_stub(call["args"]):
        return None
    return ToolMessage(REFUSED, tool_call_id=call["id"] or "", name=call["name"], status="error")


def _split(state: State) -> tuple[dict[str, Any] | None, list[ToolMessage]]:
    """The state with only the calls that may run, and the refusals for the rest."""
    messages = live(state)
    newest = messages[-1]
    assert isinstance(newest, AIMessage), "the tools node follows an assistant message"
    calls = [call for call in newest.tool_calls if call["name"] != DELEGATE]
    refused = [refusal for call in calls if (refusal := refusal_of(call))]
    allowed = [call for call in calls if not holds_stub(call["args"])]
    if not allowed:
        return None, refused
    return {**state, "messages": [*messages[:-1], newest.model_copy(update={"tool_calls": allowed})]}, refused


def _answered(result: Any, refused: list[ToolMessage]) -> Update:
    """The node's update with the refusals added; a tool's own Command is passed on as it is."""
    if isinstance(result, list):
        # LangGraph takes a list of updates and Commands as it takes one update.
        return cast(Update, [*result, {"messages": refused}] if refused else result)
    found: list[BaseMessage] = result.get("messages", []) if result else []
    return {"messages": [*found, *refused]}
