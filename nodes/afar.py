"""A child on a server: followed, granted its share of the purse, and brought back as a conclusion."""

from typing import Any

from langchain_core.runnables import RunnableConfig

from headwater.memory.ledger import Spend
from headwater.nodes.conclusion import Conclusion, evidence_in, last_answer
from headwater.nodes.engine import Engine
from headwater.nodes.remote import received, reported, thread_of
from headwater.nodes.run import Run, how
from headwater.window.marks import tag_of

MOST_HELD = 1e15


async def follow_afar(run: Run, graph: Any, inputs: dict[str, Any], config: RunnableConfig) -> None:
    """Run the child, passing its events on and keeping the newest state it shows."""
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


def granted(engine: Engine, run: Run) -> dict[str, float]:
    """What a remote child may spend: all of it is held until it returns."""
    ledger, budget = engine.memory.ledger, run.spec.budget
    ledger.open(run.session, budget.limits)
    grant = Spend(*(min(amount, MOST_HELD) for amount in ledger.left(run.chain, run.session)))
    ledger.ask(run.chain, run.session, grant)
    seconds = ledger.time_left(run.chain).left
    depth = min(run.order["depth"] - 1, budget.depth)
    return {**grant._asdict(), "seconds": seconds, "depth": depth, "children": budget.children}


def from_afar(engine: Engine, run: Run, error: BaseException | None) -> Conclusion:
    """The conclusion of a remote child: what it spent is booked, its log stays where it is."""
    remote = run.spec.remote
    assert remote is not None, "asked for remote children only"
    spent = reported(run.state)
    engine.memory.ledger.settle(run.chain, run.session, spent, Spend())
    status, reason = how(run.messages, error)
    answer = last_answer(run.messages)
    if not answer:
        answer, status = "The sub-agent gave no answer.", "failed" if status == "done" else status
    evidence = evidence_in([(tag_of(m), m) for m in run.messages if tag_of(m)])
    usage = {"steps": int(spent.steps), "tokens": int(spent.tokens), "cost": round(spent.cost, 6)}
    place = {"url": remote.url, "assistant": remote.assistant, "archive": remote.archive}
    place["thread"] = thread_of(run.session)
    seen = evidence if remote.archive else ()
    return Conclusion(status, answer, run.session, seen, (), usage, reason[:400], place=place)
