"""Halt: the request does not fit and nothing is left to take out; say so, and send nothing (M7)."""

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

from headwater.nodes.engine import Engine, live, saved
from headwater.nodes.events import emit
from headwater.nodes.spending import emit_spending
from headwater.nodes.state import Node, NodeState, Update
from headwater.window.blocks import window_report

_TEXT = {
    "en": "Stopped: the request would take {estimate:,} tokens and the window of {window:,} ({source}) holds "
    "{line:,}. Largest parts: {parts}. No request was sent and nothing is lost. Continue after setting a "
    "larger WindowPolicy(window=...), or in a new session.",
    "zh": "已停止：请求需要 {estimate:,} 个 token，而窗口 {window:,}（{source}）最多容纳 {line:,}。"
    "占用最多的部分：{parts}。没有发送任何请求，也没有丢失任何内容。"
    "请把 WindowPolicy(window=...) 设大后继续，或另开会话。",
}


def halt(engine: Engine) -> Node:
    """A node that ends the round with a clear message."""

    def node(state: NodeState, config: RunnableConfig) -> Update:
        frame = engine.frame(state, config)
        step = dict(state.get("step") or {})
        report = window_report(
            frame, live(state), engine.texts(frame), engine.lines, engine.tools, engine.provider
        )
        parts = {k: v for k, v in report.items() if k not in ("total", "window", "reserve")}
        largest = sorted(parts.items(), key=lambda kv: -kv[1])[:3]
        text = _TEXT.get(frame.language, _TEXT["en"]).format(
            estimate=step.get("estimate", report["total"]),
            window=engine.lines.window,
            source=engine.window.source,
            line=engine.lines.exhausted,
            parts=", ".join(f"{name} {tokens:,}" for name, tokens in largest),
        )
        emit("halt", session=frame.session, estimate=step.get("estimate"), report=report)
        emit_spending(engine, frame, state)
        return saved(frame, messages=[AIMessage(text, response_metadata={"headwater": "halt"})], step={})

    return node
