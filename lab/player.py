"""A recorded session as model, tools and clock, for any agent to be run on."""

import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.types import Command

from headwater.lab.provider import Reply, Request
from headwater.lab.script import recorded
from headwater.lab.sessions import Session

PACE = 10.0
END = "(end of the recording)"
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Player:
    """A session's assistant messages as a script, its results as tools, its times as a clock."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.replies: Sequence[Reply] = recorded(session)
        self.rows = [i for i, m in enumerate(session.messages) if isinstance(m, AIMessage)]
        self.served = 0
        self.delivered: list[BaseMessage] = []
        self._given: set[int] = set()
        self._times = times_of(session)

    def script(self, request: Request) -> Reply:
        """The next recorded assistant message; behind the last one, a word to stop."""
        if self.done:
            return Reply(END)
        reply = self.replies[self.served]
        self.delivered.append(self.session.messages[self.rows[self.served]])
        self.served += 1
        return reply

    def clock(self) -> float:
        """When the next request was made, in the recording: at its last input."""
        row = self.rows[min(self.served, len(self.rows) - 1)]
        return self._times[max(0, row - 1)]

    @property
    def done(self) -> bool:
        """Whether every assistant message has been played."""
        return self.served >= len(self.rows)

    def inputs(self) -> list[Any]:
        """What stands before the next assistant message and has not been given yet."""
        end = self.rows[self.served] if not self.done else len(self.session.messages)
        rows = (i for i in range(end) if i not in self._given)
        return self._give([i for i in rows if not isinstance(self.session.messages[i], AIMessage)])

    def result(self, call: dict[str, Any]) -> ToolMessage | Command[Any]:
        """The recorded result of a call; behind the arc's last call, also what came in meanwhile."""
        row = self.rows[self.served - 1]
        end = self.rows[self.served] if not self.done else len(self.session.messages)
        found = next(
            (
                i
                for i in range(row + 1, end)
                if i not in self._given and _answers(self.session.messages[i], call["id"])
            ),
            None,
        )
        message = ToolMessage("(not answered)", tool_call_id=call["id"], name=call["name"])
        if found is not None:
            message = self._give([found])[0]  # type: ignore[assignment]
        arc = self.session.messages[row]
        assert isinstance(arc, AIMessage)
        if not arc.tool_calls or call["id"] != arc.tool_calls[-1]["id"]:
            return message
        ids = {c["id"] for c in arc.tool_calls}
        rest = [
            i
            for i in range(row + 1, end)
            if i not in self._given and not any(_answers(self.session.messages[i], known) for known in ids)
        ]
        return Command(update={"messages": [message, *self._give(rest)]}) if rest else message

    def tools(self) -> list[BaseTool]:
        """One tool for each name that the session calls."""
        names = {c["name"] for m in self.session.messages if isinstance(m, AIMessage) for c in m.tool_calls}
        return [RecordedTool(name=n, player=self) for n in sorted(names) if _TOOL_NAME.fullmatch(n)]

    def _give(self, rows: Sequence[int]) -> list[BaseMessage]:
        self._given.update(rows)
        messages = [self.session.messages[i].model_copy(update={"id": f"row-{i}"}) for i in rows]
        self.delivered += messages
        return messages


class RecordedTool(BaseTool):
    """A tool that answers as it did when the session was recorded."""

    name: str
    description: str = "A recorded tool."
    args_schema: Any = {"type": "object", "properties": {}}  # noqa: RUF012 - a pydantic field, copied per instance
    player: Any

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Answer one call."""
        return self.player.result(input)

    def _run(self, **kwargs: Any) -> Any:
        raise NotImplementedError("recorded tools are invoked with the whole call")


def times_of(session: Session) -> list[float]:
    """A time for each row: the recorded one, else a steady pace behind the row before; never backwards."""
    times: list[float] = []
    for stated in session.times:
        before = times[-1] if times else 0.0
        times.append(max(before, stated) if stated is not None else before + PACE)
    return times


def _answers(message: BaseMessage, call_id: str | None) -> bool:
    return isinstance(message, ToolMessage) and message.tool_call_id == call_id
