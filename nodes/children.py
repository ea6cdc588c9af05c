"""Running one child: admitted by the purse, within its time, with what it did kept however it ends."""

import asyncio
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel
from pydantic import TypeAdapter

from headwater.memory import ArtifactError, Memory, PathRefused
from headwater.memory.ledger import Short, Spend
from headwater.nodes.conclusion import Conclusion, evidence_in, last_answer, validated
from headwater.nodes.delegation import Delegation, SubAgent, digest_of
from headwater.nodes.engine import Engine
from headwater.nodes.loop import bounded
from headwater.nodes.purse import BRIEFS, CHAIN, DEPTH, spend_of, step_of
from headwater.nodes.remote import received, remote_config, reported, thread_of
from headwater.window.clean import condense
from headwater.window.marks import tag_of
from headwater.window.tokens import count_text

NODES_A_STEP = 8
MOST_STEPS = 100_000
SCHEMA_TRIES = 2
HANDED_TOKENS = 8_000
MOST_HELD = 1e15
Write = Callable[[Any], None]


@dataclass
class Run:
    """One child at work.

    Attributes:
        spec, graph: What runs.
        order: Its delegation.
        write: Where its events go.
        state: The newest state it has shown.
        value: What a runnable returned that holds no messages.
        paid: Messages of a runnable of the user's that are booked.
    """

    spec: SubAgent
    graph: Runnable[Any, Any]
    order: Delegation
    write: Write
    state: dict[str, Any] = field(default_factory=dict)
    value: Any = None
    paid: int = 0

    @property
    def session(self) -> str:
        """The child's session."""
        return self.order["session"]

    @property
    def chain(self) -> list[str]:
        """The accounts that pay."""
        return [self.session, *self.order["chain"]]

    @property
    def governed(self) -> bool:
        """Whether it is a graph of ours, which pays step by step and keeps its own archive."""
        return self.spec.runnable is None and self.spec.remote is None

    @property
    def messages(self) -> list[BaseMessage]:
        """What it has said so far."""
        found = self.state.get("messages") or []
        return [m for m in found if isinstance(m, BaseMessage) and not isinstance(m, RemoveMessage)]


class PurseSpent(Exception):
    """A runnable of the user's has used up what it may spend."""


async def conclude(engine: Engine, run: Run, config: RunnableConfig) -> Conclusion:
    """Run a child to its conclusion.

    One that has concluded this brief before (the process ended between that and the parent's checkpoint) is
    not run again. Whatever it raises is its conclusion's reason; only the caller's own cancellation goes on.
    """
    ledger, brief = engine.memory.ledger, digest_of(run.order["call"]["args"])
    # The ledger is a file: no event loop waits for it.
    if known := await to_thread(ledger.concluded, run.session, brief):
        return Conclusion.from_dict(known)
    short = await to_thread(admit, engine, run)
    if short is not None:
        return refusal(short)
    try:
        conclusion = await _run(engine, run, config)
    finally:
        await to_thread(ledger.release, run.session)
    await to_thread(ledger.conclude, run.session, brief, conclusion.to_dict())
    return conclusion


def admit(engine: Engine, run: Run) -> Short | None:
    """Open the child's account and hold its concluding step; the limit that forbids it."""
    ledger, order = engine.memory.ledger, run.order
    ledger.adopt(order["parent"], run.session, _tag(run.session))
    ledger.release(run.session)
    size = count_text(str(order["call"]["args"].get("brief", ""))) + count_text(run.spec.prompt)
    step = step_of(engine.prices, size, engine.reserve)
    if (time := ledger.time_left(order["chain"])).left <= 0:
        return time
    again = ledger.known(run.session)
    return ledger.admit(order["chain"], run.session, run.spec.budget.limits, step, again=again)


def refusal(short: Short) -> Conclusion:
    """A delegation that the purse does not allow."""
    advice = "Do it yourself with what is left, or conclude."
    return Conclusion("refused", f"Not delegated. {short}. {advice}", reason=f"{short.limit} is spent")


def brief_of(order: Delegation, memory: Memory, *, away: bool = False) -> dict[str, Any] | Conclusion:
    """The child's input: the brief with the artifacts it is handed, and the pins that bind it."""
    args = order["call"]["args"]
    handed = [str(name) for name in args.get("artifacts") or []]
    try:
        for name in handed:
            memory.artifacts.retain(name, order["session"])
        if away:
            # Its memory is another; what is handed over goes along.
            texts = [condense(memory.artifacts.read_text(name), HANDED_TOKENS) for name in handed]
            text = "\n\n".join([str(args["brief"]), *texts])
            return {"messages": [HumanMessage(text)], "pins": list(order["pins"])}
    except (ArtifactError, PathRefused) as error:
        return Conclusion("refused", f"Not delegated: {error}", reason="an artifact cannot be handed over")
    lines = [str(args["brief"]), *(f'Handed to you: file_read("{name}")' for name in handed)]
    return {"messages": [HumanMessage("\n".join(lines))], "pins": list(order["pins"])}


async def _run(engine: Engine, run: Run, config: RunnableConfig) -> Conclusion:
    inputs = await to_thread(brief_of, run.order, engine.memory, away=run.spec.remote is not None)
    if isinstance(inputs, Conclusion):
        return inputs
    own = child_config(run.order, run.spec, config)
    if run.spec.remote is not None:
        own = remote_config(own, await to_thread(_granted, engine, run))
        inputs["messages"] = [{"role": "user", "content": m.content} for m in inputs["messages"]]
    reason = ""
    for attempt in range(SCHEMA_TRIES + 1):
        error = await _drive(engine, run, inputs, own)
        conclusion = await to_thread(concluded, engine, run, error)
        if run.spec.output is None or conclusion.status not in ("done", "partial"):
            break
        conclusion, reason = _in_form(conclusion, run)
        if not reason or conclusion.status != "done" or not run.governed or attempt == SCHEMA_TRIES:
            break
        again = HumanMessage(f"Your answer does not have the form asked for ({reason}). Give it once more.")
        inputs = {**run.state, "messages": [*run.messages, again], "pins": []}
    if reason:
        form = f"the answer has not the form asked for: {reason}"
        return replace(conclusion, status="partial", reason=conclusion.reason or form)
    return conclusion


def _in_form(conclusion: Conclusion, run: Run) -> tuple[Conclusion, str]:
    """The conclusion with its answer as the schema has it, and why it is not."""
    given = run.state.get("structured_response")
    answer = conclusion.answer
    if given is not None:
        answer = TypeAdapter(type(given)).dump_json(given).decode()
    value, reason = validated(answer, run.spec.output)
    if reason:
        return conclusion, reason
    text = answer if given is None else TypeAdapter(Any).dump_json(value).decode()
    return replace(conclusion, answer=text, value=value), ""


async def _drive(
    engine: Engine, run: Run, inputs: dict[str, Any], config: RunnableConfig
) -> BaseException | None:
    """Let the child work for the time there is; what ended it, None when it ended by itself."""
    left = await to_thread(engine.memory.ledger.time_left, run.chain)
    task = await bounded(_follow(engine, run, inputs, config), left.left)
    if not task.done() or task.cancelled():
        over = (await to_thread(engine.memory.ledger.time_left, run.chain)).left <= 0
        return TimeoutError(f"no answer within {left.of:g} s") if over else asyncio.CancelledError()
    return task.exception()


async def _follow(engine: Engine, run: Run, inputs: dict[str, Any], config: RunnableConfig) -> None:
    """Run the child, passing its events on and keeping the newest state it shows."""
    if run.spec.remote is not None:
        await _follow_afar(run, run.spec.remote.graph(), inputs, config)
        return
    if not isinstance(run.graph, Pregel):
        await to_thread(_take, engine, run, await run.graph.ainvoke(inputs, config))
        return
    stream: AsyncIterator[Any] = run.graph.astream(inputs, config, stream_mode=["custom", "values"])
    async for mode, chunk in stream:
        if mode == "custom":
            run.write(chunk)
        else:
            await to_thread(_take, engine, run, chunk)


async def _follow_afar(run: Run, graph: Any, inputs: dict[str, Any], config: RunnableConfig) -> None:
    """`_follow` for a child on a server."""
    try:
        # A server that sees its client go ends the run.
        async for part in graph.astream(
            inputs, config, stream_mode=["custom", "values"], on_disconnect="cancel"
        ):
            if part.event == "custom":
                run.write(part.data)
            elif part.event == "values":
                run.state = received(part.data)
    finally:
        await graph.client.aclose()


def _take(engine: Engine, run: Run, outcome: Any) -> None:
    """Keep what a child shows; a runnable of the user's is booked by what it reports."""
    if isinstance(outcome, Mapping) and ("messages" in outcome or "structured_response" in outcome):
        run.state = dict(outcome)
    elif isinstance(outcome, BaseMessage):
        run.state = {"messages": [outcome]}
    else:
        run.value = outcome
    if run.governed:
        return
    said = run.messages
    for message in said[run.paid :]:
        if isinstance(message, AIMessage):
            # What reports no usage was not said by a model, as far as anyone knows.
            paid = spend_of(engine.prices, message, 0)
            engine.memory.ledger.settle(run.chain, run.session, paid, Spend())
    run.paid = len(said)
    limits = run.spec.budget.limits
    spent = engine.memory.ledger.spent(run.session)
    over = [n for n in ("steps", "tokens", "cost") if getattr(spent, n) > getattr(limits, n)]
    if over:
        raise PurseSpent(f"its budget of {over[0]} is spent")


def concluded(engine: Engine, run: Run, error: BaseException | None) -> Conclusion:
    """The conclusion of a child that returned, failed, or was cut; what it did is in its archive."""
    archive = engine.memory.archive
    if run.spec.remote is not None:
        return _from_afar(engine, run, error)
    if not run.governed and run.messages:
        archive.append(run.session, run.messages)
    last = archive.last(run.session)
    log = archive.read(run.session, 1, last) if last else []
    # The archive has what was taken in; the state may have one answer more.
    answer = last_answer(run.messages) or last_answer([m for _, m in log])
    if run.value is not None and not answer:
        answer = run.value if isinstance(run.value, str) else _as_text(run.value)
    status, reason = _how(run.messages, error)
    evidence = evidence_in(log)
    if not answer.strip():
        answer = "The sub-agent gave no answer." + (
            f" It made {len(evidence)} tool calls." if evidence else ""
        )
        status = "failed" if status == "done" else status
    spent = engine.memory.ledger.spent(run.session)
    usage = {"steps": int(spent.steps), "tokens": int(spent.tokens), "cost": round(spent.cost, 6)}
    return Conclusion(status, answer, run.session, evidence, (), usage, reason[:400])


def _granted(engine: Engine, run: Run) -> dict[str, float]:
    """What a remote child may spend: all of it is held until it returns."""
    ledger, budget = engine.memory.ledger, run.spec.budget
    ledger.open(run.session, budget.limits)
    grant = Spend(*(min(amount, MOST_HELD) for amount in ledger.left(run.chain, run.session)))
    ledger.ask(run.chain, run.session, grant)
    seconds = ledger.time_left(run.chain).left
    depth = min(run.order["depth"] - 1, budget.depth)
    return {**grant._asdict(), "seconds": seconds, "depth": depth, "children": budget.children}


def _from_afar(engine: Engine, run: Run, error: BaseException | None) -> Conclusion:
    """The conclusion of a remote child: what it spent is booked, its log stays where it is."""
    remote = run.spec.remote
    assert remote is not None, "asked for remote children only"
    spent = reported(run.state)
    engine.memory.ledger.settle(run.chain, run.session, spent, Spend())
    status, reason = _how(run.messages, error)
    answer = last_answer(run.messages)
    if not answer:
        answer, status = "The sub-agent gave no answer.", "failed" if status == "done" else status
    evidence = evidence_in([(tag_of(m), m) for m in run.messages if tag_of(m)])
    usage = {"steps": int(spent.steps), "tokens": int(spent.tokens), "cost": round(spent.cost, 6)}
    place = {"url": remote.url, "assistant": remote.assistant, "archive": remote.archive}
    place["thread"] = thread_of(run.session)
    seen = evidence if remote.archive else ()
    return Conclusion(status, answer, run.session, seen, (), usage, reason[:400], place=place)


def _how(messages: Sequence[BaseMessage], error: BaseException | None) -> tuple[Any, str]:
    """Status and reason."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled", "it was cancelled"
    if isinstance(error, GraphRecursionError):
        return "partial", "its budget of steps is spent"
    if isinstance(error, (TimeoutError, PurseSpent)):
        return "partial", f"{type(error).__name__}: {error}" if isinstance(error, TimeoutError) else str(
            error
        )
    if error is not None:
        return "failed", f"{type(error).__name__}: {error}"
    last = messages[-1] if messages else None
    marker = last.response_metadata.get("headwater") if isinstance(last, AIMessage) else None
    return ("partial", str(marker)) if marker else ("done", "")


def child_config(order: Delegation, spec: SubAgent, config: RunnableConfig) -> RunnableConfig:
    """The child's own thread and purse; nothing of the parent's checkpoint, but its callbacks and tags."""
    given = config.get("configurable") or {}
    own = {k: v for k, v in given.items() if not k.startswith(("__pregel", "checkpoint"))}
    steps = int(min(spec.budget.steps, MOST_STEPS))
    return {
        "configurable": {
            **own,
            "thread_id": order["session"],
            CHAIN: [order["session"], *order["chain"]],
            DEPTH: min(order["depth"] - 1, spec.budget.depth),
            BRIEFS: [*order["briefs"], digest_of(order["call"]["args"])],
        },
        "recursion_limit": steps * NODES_A_STEP + 16,
        "callbacks": config.get("callbacks"),
        "tags": config.get("tags") or [],
    }


def _as_text(value: Any) -> str:
    return TypeAdapter(Any).dump_json(value, fallback=str).decode()


def _tag(session: str) -> int:
    """The tag in the parent's session from which on a child is referred to; it is in the child's name."""
    number = session.rpartition("/")[2].partition(".")[0]
    return int(number) if number.isdigit() else 0
