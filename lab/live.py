"""The window of a running agent, live: in the terminal, and as a page on this machine.

Both read the graph's custom stream events, so they can watch any agent that governance is part of:

    with LiveWindow() as live:
        for event in agent.stream(inputs, config, stream_mode="custom"):
            live.event(event)
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from headwater.lab.page import page_of
from headwater.lab.redrawn import LEVEL_COLOURS, Redrawn
from headwater.lab.trace import remedy_of

_BARS = "▁▂▃▄▅▆▇█"
_HEIGHT = 12
_EIGHTHS = 8


class Watched:
    """What the events of one session have told so far; thread-safe.

    Args:
        name: What to call it.
        session: Which session; by default the first that is met. Sub-agents are listed beside it.
    """

    def __init__(self, name: str = "agent", session: str | None = None) -> None:
        self.name = name
        self.steps: list[dict[str, Any]] = []
        self.lines: dict[str, int] | None = None
        self.children: list[dict[str, Any]] = []
        self._session = session
        self._open: dict[str, Any] = {"estimate": 0, "level": "NORMAL", "moves": []}
        self._lock = threading.Lock()

    def event(self, event: Mapping[str, Any]) -> None:
        """Take in one event; those of other sessions and other kinds are passed over."""
        kind = str(event.get("type", "")).removeprefix("headwater.")
        with self._lock:
            if kind == "delegate":
                self.children.append(
                    {"name": event.get("agent", ""), "task": event.get("brief", ""), "calls": 0,
                     "messages": 0, "children": [], "session": event.get("session")}
                )  # fmt: skip
                return
            if kind == "watermark" and self._session is None:
                self._session = event.get("session")
            if event.get("session") != self._session:
                self._child(kind, event)
                return
            self._own(kind, event)

    def _own(self, kind: str, event: Mapping[str, Any]) -> None:
        step = self._open
        if kind == "watermark":
            self.lines = dict(event["lines"])
            step["estimate"] = max(step["estimate"], event["estimate"])
            step["level"] = max(step["level"], event["level"], key=list(LEVEL_COLOURS).index)
        elif remedy := remedy_of(event):
            step["moves"].append(remedy)
        if kind in ("request", "halt"):
            self.steps.append(_step(len(self.steps) + 1, step, event))
            self._open = {"estimate": 0, "level": "NORMAL", "moves": []}

    def _child(self, kind: str, event: Mapping[str, Any]) -> None:
        for child in self.children if kind == "request" else ():
            if child["session"] == event.get("session"):
                child["calls"] += 1

    def data(self) -> dict[str, Any]:
        """What the page shows."""
        with self._lock:
            steps = list(self.steps)
            children = [{k: v for k, v in child.items() if k != "session"} for child in self.children]
        sent = sum(s["input"] for s in steps) or 1
        cached = sum(s["blocks"].get("cached", 0) for s in steps)
        moved = sum(len(s["moves"]) for s in steps)
        return {
            "name": self.name,
            "live": True,
            "subtitle": {"en": f"live: {len(steps):,} model calls", "zh": f"实时：{len(steps):,} 次模型调用"},
            "tiles": [["t_steps", len(steps), "", ""], ["input", steps[-1]["input"] if steps else 0, "", ""],
                      ["t_cached", cached / sent, "%", ""], ["t_moves", moved, "", ""]],
            "blocks": ["cached", "fresh"],
            "lines": self.lines,
            "steps": steps,
            "rows": [], "findings": [], "facts": [], "compartments": [],
            "tree": {"name": self.name, "calls": len(steps), "messages": 0, "children": children},
        }  # fmt: skip


def _step(number: int, step: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    usage = event.get("usage") or {}
    total = int(usage.get("input_tokens") or event.get("tokens") or 0)
    cached = min(total, int((usage.get("input_token_details") or {}).get("cache_read") or 0))
    return {
        "n": number,
        "input": total,
        "estimate": max(step["estimate"], total),
        "level": step["level"],
        "kind": str(event.get("kind", "defer")),
        "moves": list(step["moves"]),
        "gap": 0,
        "cold": False,
        "ms": 0,
        "cost": 0,
        "costs": {},
        "blocks": {"cached": cached, "fresh": total - cached},
    }


class LiveWindow(Redrawn):
    """The window in the terminal while an agent runs; in a pipe one line for each step that moved something.

    Args:
        console: Where to.
        name: What to call the agent.
    """

    def __init__(self, console: Console | None = None, name: str = "agent") -> None:
        super().__init__(console or Console())
        self.watched: Watched = Watched(name)

    def event(self, event: Mapping[str, Any]) -> None:
        """Take in one event of the graph's custom stream."""
        before = len(self.watched.steps)
        self.watched.event(event)
        if self.is_drawn:
            self.redraw()
        elif len(self.watched.steps) > before and self.watched.steps[-1]["moves"]:
            step = self.watched.steps[-1]
            self.console.print(f"{step['n']:>5} {step['input']:>9,} {', '.join(step['moves'])}")

    def watch(self, events: Iterable[Any]) -> Iterator[Any]:
        """The same events, each taken in as it passes."""
        for event in events:
            if isinstance(event, Mapping):
                self.event(event)
            yield event

    def picture(self) -> Group:
        """The window now: columns of the last steps under the lines, and what was done last."""
        steps, lines = self.watched.steps, self.watched.lines
        if not steps or lines is None:
            return Group(Text("waiting for the first model call …", style="dim"))
        rows = columns(steps, lines, max(20, self.console.width - 22))
        last = [step for step in steps if step["moves"]][-4:]
        table = Table(box=None, show_header=False, pad_edge=False)
        for step in last:
            change = f"{step['estimate']:,} → {step['input']:,}"
            table.add_row(f"step {step['n']}", ", ".join(step["moves"]), change)
        return Group(*rows, table)


def columns(steps: list[dict[str, Any]], lines: Mapping[str, int], width: int) -> list[Text]:
    """The last steps as columns of cells, the highest row first, with the lines named at the right."""
    shown = steps[-width:]
    top = lines["window"]
    names: dict[int, list[str]] = {}
    for name in ("window", "usable", "exhausted", "compact", "offload"):
        row = min(_HEIGHT - 1, int(lines[name] / top * _HEIGHT))
        names.setdefault(row, []).append(f"{name} {lines[name]:,}")
    out = []
    for row in range(_HEIGHT - 1, -1, -1):
        text = Text()
        for step in shown:
            filled = round(step["input"] / top * _HEIGHT * _EIGHTHS) - row * _EIGHTHS
            cell = " " if filled <= 0 else _BARS[min(filled, _EIGHTHS) - 1]
            text.append("·" if cell == " " and row in names else cell, style=LEVEL_COLOURS[step["level"]])
        text.append(" " * (width - len(shown)) + " " + (names[row][0] if row in names else ""), style="dim")
        out.append(text)
    return out


class LivePage:
    """The same as a page on this machine's loopback, which follows the run; nothing leaves the machine.

    Args:
        watched: What to show.
        port: 0 takes a free one.
    """

    def __init__(self, watched: Watched, port: int = 0) -> None:
        self.watched = watched
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(watched))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="headwater-page", daemon=True)
        self.url: str = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(watched: Watched) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
            if host not in ("127.0.0.1", "localhost"):
                # A site that points its own name here must not read a session.
                self.send_error(403)
            elif self.path == "/":
                self._send("text/html; charset=utf-8", page_of(watched.data()))
            elif self.path == "/data":
                self._send("application/json", json.dumps(watched.data(), ensure_ascii=False))
            else:
                self.send_error(404)

        def _send(self, kind: str, text: str) -> None:
            body = text.encode("utf-8", "replace")
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
            return

    return Handler
