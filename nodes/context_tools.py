"""The tools through which a model governs its own window: read back, look up, note, let go, remember."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, ToolException
from langgraph.prebuilt import InjectedState

from headwater.memory import Memory, StorageError
from headwater.memory.kinship import may_open
from headwater.nodes.branch import own_tags
from headwater.nodes.lean_tool import lean_tool
from headwater.nodes.memory_tool import Action, keep_facts
from headwater.nodes.read_back import EXPAND_TOKENS, expand, read, stored
from headwater.nodes.remote import look_up
from headwater.nodes.search import LIMIT, Seen, search
from headwater.nodes.told import ToldRows
from headwater.window.face import safe
from headwater.window.frame import Frame
from headwater.window.marks import TagError, parse_ranges, tag_of
from headwater.window.policy import Lines

_SHARE = 0.15


class Desk(Protocol):
    """What the tools know of their agent; an `Engine` is one."""

    @property
    def memory(self) -> Memory:
        """Where they read."""

    @property
    def lines(self) -> Lines:
        """How much a page may take."""

    @property
    def subagents(self) -> Sequence[Any]:
        """Whom it may delegate to."""

    @property
    def told(self) -> ToldRows:
        """What was read of told history."""

    def frame(self, state: Mapping[str, Any], config: RunnableConfig | None = None) -> Frame:
        """Whose session the state is."""

    def texts(self, frame: Frame) -> Sequence[str]:
        """What a request shows before the tail."""


def context_tools(engine: Desk) -> list[BaseTool]:
    """`file_read` and the `ctx_` tools for one agent."""

    def file_read(
        path: str,
        offset: int = 0,
        limit: int = 200,
        char_offset: int | None = None,
        state: Annotated[dict[str, Any] | None, InjectedState] = None,
        config: Annotated[RunnableConfig | None, InjectedToolArg] = None,
    ) -> str:
        """Read a stored text by the path its ⟦stored …⟧ mark names.

        offset, limit: lines; char_offset: characters, for very long lines.
        """
        tokens = _page_tokens(engine)
        if engine.subagents and not stored(engine.memory, path):
            own = engine.frame(state or {}, config).session
            children = (child for child, _ in engine.memory.delegations.children(own))
            places = (place for child in children if (place := place_of(engine.memory, child)))
            for place in {str(place): place for place in places}.values():
                text = look_up(place, path=path, offset=offset, char_offset=char_offset, tokens=tokens)
                if not text.startswith("Error:"):
                    return safe(text)
        return read(engine.memory, path, offset, limit, char_offset, tokens)

    def ctx_expand(
        tags: str,
        session: str | None = None,
        state: Annotated[dict[str, Any] | None, InjectedState] = None,
        config: Annotated[RunnableConfig | None, InjectedToolArg] = None,
    ) -> str:
        """Show earlier messages in full by § numbers, e.g. "3-5,8".

        session: where a conclusion or ctx_search names one.
        """
        frame = engine.frame(state or {}, config)
        own = frame.session
        opened = session or own
        if may_open(engine.memory, own, opened) and (place := place_of(engine.memory, opened)):
            return safe(look_up(place, session=place["thread"], tags=tags, tokens=_page_tokens(engine)))
        owned = own_tags(engine, frame, state or {}) if opened == own else None
        return expand(engine.memory, own, opened, tags, _page_tokens(engine), owned)

    def ctx_search(
        query: str,
        limit: int = LIMIT,
        state: Annotated[dict[str, Any] | None, InjectedState] = None,
        config: Annotated[RunnableConfig | None, InjectedToolArg] = None,
    ) -> str:
        """Search long-term facts, this session's history, the project's other sessions and commits.

        Open what it finds with ctx_expand.
        """
        frame = engine.frame(state or {}, config)
        return _search(engine, frame, state or {}, query, limit)

    def ctx_note(
        text: str, kind: Literal["goal", "constraint", "exclusion", "decision", "preference", "note"] = "note"
    ) -> str:
        """Note what must stay in sight for the whole task, e.g. a constraint or an excluded option."""
        if not text.strip():
            raise ToolException("the note is empty; write what must stay in sight")
        return f"Noted ({kind}); it stays in sight."

    def ctx_reduce(tags: str, state: Annotated[dict[str, Any] | None, InjectedState] = None) -> str:
        """Let go of tool results you no longer need, by § numbers; ctx_expand reads them back."""
        return _let_go(tags, state or {})

    def ctx_memory(
        action: Action,
        content: str = "",
        category: str = "PROJECT_RULES",
        fact: str = "",
        state: Annotated[dict[str, Any] | None, InjectedState] = None,
        config: Annotated[RunnableConfig | None, InjectedToolArg] = None,
    ) -> str:
        """Long-term facts, kept across sessions.

        category: PROJECT_RULES, ARCHITECTURE, CONSTRAINTS, CONFIG_VALUES or NAMING; fact: id to change.
        """
        session = engine.frame(state or {}, config).session
        return keep_facts(engine.memory, session, action, content, category, fact)

    functions = (file_read, ctx_expand, ctx_search, ctx_note, ctx_reduce, ctx_memory)
    return [lean_tool(function) for function in functions]


def place_of(memory: Memory, session: str) -> dict[str, Any] | None:
    """Where the log of a delegated session is kept, when it is on another machine that serves it."""
    place = (memory.delegations.concluded(session) or {}).get("place") or {}
    return place if place.get("archive") else None


def _let_go(tags: str, state: dict[str, Any]) -> str:
    """Answer a `ctx_reduce`: intake queues what is named here, no request changes because of it (G9)."""
    try:
        wanted = parse_ranges(tags, known=map(tag_of, state.get("messages") or []))
    except TagError as error:
        raise ToolException(str(error)) from error
    return f"{len(wanted)} messages are marked; they leave when it costs least."


def _page_tokens(engine: Desk) -> int:
    """Tokens one page may take: never more than the requirement's cap, nor a share of a small window."""
    return min(EXPAND_TOKENS, int(_SHARE * engine.lines.window))


def _search(engine: Desk, frame: Frame, state: dict[str, Any], query: str, limit: int) -> str:
    tail = frozenset(map(tag_of, state.get("messages") or [])) - set(frame.edits)
    try:
        in_sight = Seen("\n".join(engine.texts(frame)), tail)
        return safe(
            search(
                engine.memory,
                frame.session,
                query,
                limit,
                tokens=_page_tokens(engine),
                seen=in_sight,
                owned=own_tags(engine, frame, state),
                language=frame.language,
            )
        )
    except (StorageError, ValueError) as error:
        raise ToolException(str(error)) from error
