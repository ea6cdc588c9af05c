"""Reading back, as the model would: by the context tools alone."""

from collections.abc import Mapping

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool

from headwater.nodes.context_tools import context_tools
from headwater.nodes.engine import Engine
from headwater.window.frame import Frame

THREAD = "t"


def arrows(message: BaseMessage) -> str:
    """The calls of a message as `ctx_expand` tells them."""
    return "".join(f"\n→ {call['name']}({call['args']})" for call in getattr(message, "tool_calls", ()))


def tools_of(engine: Engine) -> dict[str, BaseTool]:
    """The context tools by name; to make them takes longer than to call them."""
    return {made.name: made for made in context_tools(engine)}


def expanded(by_name: Mapping[str, BaseTool], tag: int) -> str:
    """A message as the model reads it back: by `ctx_expand`, and where that says so by `file_read`."""
    state = {"frame": Frame(session=THREAD).to_state()}
    text = str(by_name["ctx_expand"].invoke({"tags": str(tag), "state": state}))
    head, _, text = text.partition(": ")
    assert head.startswith(f"§{tag}§")
    cut, mark, more = text.rpartition("\n⟪go on with file_read(path=")
    if not mark:
        return text
    path, at = more.split('"')[1], int(more.split("char_offset=")[1].split(")")[0])
    assert len(cut) == at
    while True:
        page = str(by_name["file_read"].invoke({"path": path, "char_offset": at, "limit": 10**6}))
        part, mark, more = page.rpartition("\n⟪")
        if not mark or "go on with" not in more:
            return cut + page
        cut, at = cut + part, int(more.split("char_offset=")[1].split("⟫")[0])
