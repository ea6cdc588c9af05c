"""Running one child: admitted by the purse, within its time, with what it did kept however it ends."""

import asyncio
from asyncio import to_thread
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from pydantic import TypeAdapter

from headwater.memory import ArtifactError, Memory, PathRefused
from headwater.memory.ledger import Short, Spend
from headwater.nodes.afar import follow_afar, from_afar, granted
from headwater.nodes.conclusion import Conclusion, evidence_in, last_answer, validated
from headwater.nodes.delegation import Delegation, digest_of
from headwater.nodes.engine import Engine
from headwater.nodes.loop import bounded
from headwater.nodes.purse import spend_of, step_of
from headwater.nodes.remote import remote_config
from headwater.nodes.run import PurseSpent, Run, child_config, how
from headwater.nodes.settings import RunSettings
from headwater.window.clean import condense
from headwater.window.tokens import count_text

SCHEMA_TRIES = 2
HANDED_TOKENS = 8_000


async def conclude(engine: Engine, run: Run, config: RunnableConfig) -> Conclusion:
    """Run a child to its conclusion.

    One that has concluded this brief before (the process ended between that and the parent's checkpoint) is
    not run again. Whatever it raises is its conclusion's reason; only the caller's own cancellation goes on.
    """
    delegations, brief = engine.memory.delegations, digest_of(run.order["call"]["args"])
    # Conclusions and ledger are files: no event loop waits for them.
    if known := await to_thread(delegations.concluded, run.session, brief):
        return Conclusion.from_dict(known)
    short = await to_thread(admit, engine, run)
    if short is not None:
        return refusal(short)
    try:
        conclusion = await _run(engine, run, config)
    finally:
        await to_thread(engine.memory.ledger.release, run.session)
    await to_thread(delegations.conclude, run.session, brief, conclusion.to_dict())
    return conclusion


def admit(engine: Engine, run: Run) -> Short | None:
    """Open the child's account and hold its concluding step; the limit that forbids it."""
    ledger, order = engine.memory.ledger, run.order
    engine.memory.delegations.adopt(order["parent"], run.session, _tag(run.session))
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
        own = remote_config(own, await to_thread(granted, engine, run), engine.memory.tenant)
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
        await follow_afar(run, run.spec.remote.graph(), inputs, config)
        return
    if not isinstance(run.graph, Pregel):
        await to_thread(_take, engine, run, await run.graph.ainvoke(inputs, config))
        return
    # The window is each agent's own; whose facts they are is not.
    settings: Any = RunSettings(tenant=engine.memory.tenant) if run.governed else None
    stream: AsyncIterator[Any] = run.graph.astream(
        inputs, config, stream_mode=["custom", "values"], context=settings
    )
    async for mode, chunk in stream:
        if mode == "custom":
            run.write(chunk)
        else:
            await to_thread(_take, engine, run, chunk)


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
    left = engine.memory.ledger.left(run.order["chain"], run.session)
    names = ("steps", "tokens", "cost")
    over = [n for n in names if getattr(spent, n) > getattr(limits, n) or getattr(left, n) <= 0]
    if over:
        raise PurseSpent(f"its budget of {over[0]} is spent")


def concluded(engine: Engine, run: Run, error: BaseException | None) -> Conclusion:
    """The conclusion of a child that returned, failed, or was cut; what it did is in its archive."""
    archive = engine.memory.archive
    if run.spec.remote is not None:
        return from_afar(engine, run, error)
    if not run.governed and run.messages:
        archive.append(run.session, run.messages)
    last = archive.last(run.session)
    log = archive.read(run.session, 1, last) if last else []
    # The archive has what was taken in; the state may have one answer more.
    answer = last_answer(run.messages) or last_answer([m for _, m in log])
    if run.value is not None and not answer:
        answer = run.value if isinstance(run.value, str) else _as_text(run.value)
    status, reason = how(run.messages, error)
    evidence = evidence_in(log)
    if not answer.strip():
        answer = "The sub-agent gave no answer." + (
            f" It made {len(evidence)} tool calls." if evidence else ""
        )
        status = "failed" if status == "done" else status
    spent = engine.memory.ledger.spent(run.session)
    usage = {"steps": int(spent.steps), "tokens": int(spent.tokens), "cost": round(spent.cost, 6)}
    return Conclusion(status, answer, run.session, evidence, (), usage, reason[:400])


def _as_text(value: Any) -> str:
    return TypeAdapter(Any).dump_json(value, fallback=str).decode()


def _tag(session: str) -> int:
    """The tag in the parent's session from which on a child is referred to; it is in the child's name."""
    number = session.rpartition("/")[2].partition(".")[0]
    return int(number) if number.isdigit() else 0
