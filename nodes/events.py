"""Governance tells its story as LangGraph custom stream events; `event_types` has the shape of each."""

from typing import Any

from langgraph.config import get_stream_writer


def emit(event: str, /, **data: Any) -> None:
    """Send `{"type": "headwater.<event>", …}` to whoever streams "custom"; outside a graph, to nobody."""
    try:
        writer = get_stream_writer()
    except RuntimeError:
        return
    writer({"type": f"headwater.{event}", **data})
