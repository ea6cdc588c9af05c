"""Small sessions, one for each kind of pass, played by the real graph at the strict provider.

`python -m tests.graph.golden_sessions` writes the last request of each to `tests/graph/golden/`: run it after
a change that is meant to move what is sent, and read the difference. `... digests START NAME ...` prints a
digest of all bytes that these sessions send, the clock beginning at START seconds; `... go-on FOLDER SECONDS`
takes the session up that `settle` left in FOLDER, so many seconds later, and prints its request.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.sqlite import SqliteSaver

from headwater import WindowPolicy, build_agent
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from tests.graph.world import WINDOW, Event, config, memory_in, says

GOLDEN = Path(__file__).parent / "golden"
WEEK = 7 * 86_400.0
SMALL = WindowPolicy(window=WINDOW, keep_messages=2, keep_tags=2, min_result=60)
LOW = WindowPolicy(window=WINDOW, offload=0.3, compact=0.42, keep_messages=2, keep_tags=2, background=False)
RAW = WindowPolicy(window=WINDOW, min_result=10_000)
TALK = " ".join(f"Part {i} of the plant was looked at and is as it was before." for i in range(40))
SUMMARY = json.dumps(
    {
        "title": "First look",
        "p1": "The plant was looked at part by part; nothing has changed.",
        "p2": "The plant was looked at; nothing has changed.",
        "p3": "Nothing has changed.",
        "p4": "no change",
        "importance": 60,
        "episode": "inspection",
        "work": {"goal": "Find the leak.", "constraints": ["Never open valve V-113."]},
    }
)


class Round(NamedTuple):
    """A user's message, the calls the model makes (batch by batch, as name and lines) and its answer."""

    text: str
    batches: Sequence[Sequence[tuple[str, int]]] = ()
    answer: str = "Noted."
    gap: float = 10.0
    model: str = "one"


class Scene(NamedTuple):
    """A session, the pass of its last request, and the remedies of its last step."""

    name: str
    rounds: Sequence[Round]
    kind: str
    remedies: Sequence[str] = ()
    policy: WindowPolicy = SMALL
    cheap: bool = False


START = Round("Find the leak. Never open valve V-113.", answer="I look at the plant first.")
LOOK = Round("Look at the pumps.", [[("shell", 12)]], "The pumps run.")
LONG = [Round(f"What of hall {number}?", answer=TALK) for number in (1, 2, 3, 4)]
TWICE = [START, *LONG, *LONG[:3]]
EACH = [[("shell", 12), ("grep", 12), ("ls", 12)] for _ in range(5)]
LINE = ("execute", ["offload"])
RECLAIM = ("execute", ["reclaim"], RAW)
SCENES = (
    Scene("defer", [START, LOOK, Round("And the tanks?", answer=TALK), Round("Go on.")], "defer"),
    Scene("execute", [START, Round("List all.", [[("shell", 110)]]), Round("Well?")], "execute", ["offload"]),
    Scene("fold-cold", [START, LOOK, Round("Good morning.", gap=WEEK)], "fold", ["offload"]),
    Scene("fold-model", [*TWICE, Round("Go on.", model="two")], "fold", ["offload"], LOW, cheap=True),
    Scene("compact-summary", [START, *LONG], "execute", ["summarize"], LOW, cheap=True),
    Scene("compact-twice", TWICE, "execute", ["summarize"], LOW, cheap=True),
    Scene("compact-digest", [START, *LONG], "execute", ["summarize"], LOW),
    Scene("line-65", [START, Round("Look.", [[("shell", 60)], [("grep", 60)], [("ls", 60)]])], *LINE),
    Scene("line-85", [START, Round("Look.", [[("shell", 60)], [("grep", 60)], [("ls", 48)] * 2])], *LINE),
    Scene("reclaim-95-tiers", [START, Round("Look.", [*EACH, [("grep", 110)]])], *RECLAIM),
    Scene("reclaim-95-deep", [START, Round("Look at all.", [[("shell", 98)] * 3])], *RECLAIM),
)


def sized(name: str) -> BaseTool:
    """A tool whose result has so many lines."""

    def run(lines: int, call: int) -> str:
        """Look at one part of the plant."""
        return "\n".join(
            f"{name} {call}.{i}: part {i} is well, pressure {i * 7 % 90} bar" for i in range(lines)
        )

    made: BaseTool = tool(name)(run)
    return made


class Played:
    """What came of a session: the bytes of each request to the main model, and the events of each round."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.events: list[list[Event]] = []

    @property
    def last_step(self) -> list[Event]:
        """The events since the request before the last."""
        events = self.events[-1]
        ends = [at for at, event in enumerate(events) if event["type"] == "headwater.request"]
        return events[(ends[-2] + 1 if len(ends) > 1 else 0) : ends[-1] + 1]

    @property
    def kind(self) -> str:
        """The pass of the last request."""
        return str(self.last_step[-1]["kind"])

    @property
    def remedies(self) -> list[str]:
        """The remedies of the last step, in order."""
        names = [str(event["type"]).removeprefix("headwater.") for event in self.last_step]
        return [name for name in names if name in ("offload", "summarize", "reclaim", "fold")]

    @property
    def digest(self) -> str:
        """Of all bytes that were sent."""
        return hashlib.sha256(b"\n".join(self.sent)).hexdigest()


def play(scene: Scene, root: Path, start: float = 0.0) -> Played:
    """Play a session with its files in a folder, from a time on; a folder that has one goes on with it."""
    plan: Iterator[Reply] = iter(())
    now, played = start, Played()

    def script(request: Request) -> Reply:
        nonlocal plan
        return Reply(SUMMARY) if request.purpose == "summarizer" else next(plan)

    with ExitStack() as stack:
        memory = stack.enter_context(memory_in(root / "m"))
        saver = stack.enter_context(SqliteSaver.from_conn_string(str(root / "c.sqlite")))
        provider = stack.enter_context(
            StrictProvider(script, window=WINDOW, keep_raw=True, clock=lambda: now)
        )
        cheap = provider.openai("cheap", purpose="summarizer") if scene.cheap else None
        told = memory.archive.last("t")
        agents = {
            model: build_agent(
                provider.openai(model),
                tools=[sized("shell"), sized("grep"), sized("ls")],
                system_prompt="You keep the plant.",
                policy=scene.policy,
                memory=memory,
                checkpointer=saver,
                summarizer=cheap,
                clock=lambda: now,
            )
            for model in sorted({turn.model for turn in scene.rounds})
        }
        for turn in scene.rounds:
            now += turn.gap
            plan = replies(turn, told)
            told += len(turn.batches)
            run = agents[turn.model].stream(says(turn.text), config(), stream_mode="custom")
            played.events.append(list(run))
        assert provider.violations == []
        assert provider.totals().over_window == 0
        played.sent = [x.raw or b"" for x in provider.requests if x.purpose != "summarizer"]
    return played


def replies(turn: Round, told: int) -> Iterator[Reply]:
    """What the model says in a round; every call has a name of its own."""
    for number, batch in enumerate(turn.batches, told + 1):
        calls = [
            ToolCall(name, {"lines": lines, "call": number}, f"call_{number}_{at}")
            for at, (name, lines) in enumerate(batch)
        ]
        yield Reply("", tuple(calls))
    yield Reply(turn.answer)


def written(scene: Scene, played: Played) -> str:
    """The last request of a session as text: nothing left out, nothing that two requests could share."""
    raw = json.loads(played.sent[-1])
    names = [made["function"]["name"] for made in raw["tools"]]
    ways = " ".join(played.remedies) or "nothing"
    last = f"# {scene.name}: request {len(played.sent)}, {played.kind}, by {ways}"
    return "\n".join([last, f"# tools: {' '.join(names)}", *map(row_text, raw["messages"]), ""])


def row_text(row: dict[str, Any]) -> str:
    """One message of a request."""
    rest = set(row) - {"role", "content", "tool_calls", "tool_call_id"}
    assert not rest, f"say how {rest!r} is written"
    assert row["content"] is None or isinstance(row["content"], str)
    calls = [
        f"→ {call['id']} {call['function']['name']}({call['function']['arguments']})"
        for call in row.get("tool_calls") or []
    ]
    head = f"=== {row['role']}{' ' + row['tool_call_id'] if 'tool_call_id' in row else ''}"
    return "\n".join([head, *filter(None, [row["content"]]), *calls])


SETTLED = Scene(
    "settled",
    [*TWICE, LOOK, *LONG[:1], Round("Good morning.", gap=WEEK), Round("Thank you.")],
    "defer",
    policy=LOW,
    cheap=True,
)


def settle(root: Path) -> Played:
    """A session with told history, facts and stubs, and no edit that waits."""
    return play(SETTLED, root)


def go_on(root: Path, pause: float) -> Played:
    """The settled session goes on after a pause."""
    again = SETTLED._replace(rounds=[Round("Go on.", gap=pause)])
    return play(again, root, start=2 * WEEK)


def main(words: Sequence[str]) -> None:
    """See the module."""
    if words[:1] == ["go-on"]:
        print(go_on(Path(words[1]), float(words[2])).sent[-1].decode())
        return
    told = words[:1] == ["digests"]
    for scene in (scene for scene in SCENES if not told or scene.name in words[2:]):
        with tempfile.TemporaryDirectory() as root:
            played = play(scene, Path(root), float(words[1]) if told else 0.0)
        if told:
            print(scene.name, played.digest)
        else:
            (GOLDEN / f"{scene.name}.txt").write_text(written(scene, played), encoding="utf-8", newline="\n")
            print(scene.name, played.kind, *played.remedies)


if __name__ == "__main__":
    main(sys.argv[1:])
