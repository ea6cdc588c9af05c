"""The account of a run: every figure by hand, and the parts add up to the whole."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from headwater.lab.account import Account, Accountant
from headwater.lab.prefix_cache import Piece, PrefixCache
from headwater.lab.replay import ReplayReport, replay
from headwater.lab.sent_requests import SentRequests
from headwater.lab.sessions import Session
from headwater.window import Prices, WindowPolicy

PRICES = Prices(read=0.1, write=1.25, ttl=300)
SIZES = {"S": 100, "U": 50, "H": 40}
LINES = {"window": 400, "usable": 360, "offload": 200, "compact": 300, "exhausted": 340}


class Hand:
    """Twelve requests of parts with known sizes, at known times, through the real cache and accountant."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cache = PrefixCache(ttl=PRICES.ttl, clock=lambda: self.now)
        self.books = Accountant()

    def send(self, after: float, names: list[str], *events: dict[str, Any], saved: int = 0) -> None:
        self.now += after
        pieces = [Piece(name.encode(), size_of(name)) for name in names]
        for event in events:
            self.books.event(event)
        if saved:
            self.books.saver.serde.dumps_typed(b"x" * saved)
        hit = self.cache.visit("m", pieces)
        parts = [("message", {"role": "user", "content": name}) for name in names]
        self.books.sent.note(pieces, parts, self.now, hit.cached, hit.written)
        self.books.event({"type": "headwater.request", "kind": "execute" if events else "defer"})


def size_of(name: str) -> int:
    return SIZES.get(name) or {"a": 10, "r": 20, "s": 5}[name[0]]


def arcs(first: int, last: int) -> list[str]:
    return [f"{kind}{n}" for n in range(first, last + 1) for kind in "ar"]


def twelve() -> Account:
    run = Hand()
    mark = {"type": "headwater.watermark", "estimate": 330, "level": "COMPACT", "lines": LINES}
    for step in range(1, 5):
        run.send(10, ["S", "U", *arcs(1, step - 1)], saved=7 if step == 2 else 0)
    run.send(400, ["S", "U", *arcs(1, 4)])
    run.send(10, ["S", "U", *arcs(1, 5)])
    edited = ["S", "U", "a1", "s1", *arcs(2, 6)]
    run.send(10, edited, mark, {"type": "headwater.offload", "tags": [3]})
    run.send(10, [*edited, *arcs(7, 7)])
    told = {"type": "headwater.summarize", "calls": 2, "spent": 500}
    run.send(10, ["S", "H", *arcs(7, 8)], told)
    run.send(10, ["S", "H", *arcs(7, 9)])
    moved = ["S", "H", "a7", "s7", *arcs(8, 10)]
    run.send(301, moved, {"type": "headwater.offload", "tags": [9]})
    run.send(10, [*moved, *arcs(11, 11)], saved=5)
    return run.books.close(PRICES, served=12, refused=0)


def test_every_figure_of_a_twelve_step_session_is_the_one_computed_by_hand() -> None:
    account = twelve()
    rows = [(s.input, s.spent.cached, s.spent.new, s.spent.cold, s.spent.edit) for s in account.steps]
    assert rows == [
        (150, 0, 150, 0, 0),
        (180, 150, 30, 0, 0),
        (210, 180, 30, 0, 0),
        (240, 210, 30, 0, 0),
        (270, 0, 30, 240, 0),
        (300, 270, 30, 0, 0),
        (315, 160, 30, 0, 125),
        (345, 315, 30, 0, 0),
        (200, 100, 30, 0, 70),
        (230, 200, 30, 0, 0),
        (245, 0, 30, 150, 65),
        (275, 245, 30, 0, 0),
    ]
    totals = {name: account.total(name) for name in ("input", "cached", "new", "cold", "edit", "rest")}
    assert totals == {"input": 2960, "cached": 1830, "new": 480, "cold": 390, "edit": 260, "rest": 0}
    assert account.total("cost") == 183 + 1412.5
    assert [round(s.cost, 3) for s in account.steps[:3]] == [187.5, 52.5, 55.5]
    assert (account.summary_calls, account.summary_tokens) == (2, 500)
    assert account.checkpoint_bytes == 12
    assert account.steps[6].moves == ("offload",)
    assert (account.steps[6].level.name, account.steps[6].estimate) == ("COMPACT", 330)
    assert [s.gap for s in account.steps[:5]] == [0, 10, 10, 10, 400]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 12), min_size=1, max_size=9), st.integers(0, 400)), max_size=12
    )
)
def test_the_kinds_of_tokens_add_up_whatever_is_sent(requests: list[tuple[list[int], int]]) -> None:
    now = 0.0
    cache = PrefixCache(ttl=300, clock=lambda: now)
    kept = SentRequests()
    for names, gap in requests:
        now += gap
        pieces = [Piece(str(n).encode(), n + 1) for n in names]
        hit = cache.visit("m", pieces)
        kept.note(pieces, [("message", {"content": str(n)}) for n in names], now, hit.cached, hit.written)
    for spent, sent in zip(kept.spent(), kept.requests, strict=True):
        assert sum(spent) == sent.total
        assert min(spent) >= 0
        assert spent.written == sent.written


def session(rounds: int, *, gap: float = 10.0, words: int = 260) -> Session:
    """Rounds of one user message, one call and its result."""
    messages: list[Any] = []
    for n in range(rounds):
        call = {"name": "read", "args": {"path": f"src/file_{n}.py"}, "id": f"c{n}", "type": "tool_call"}
        text = " ".join(f"word{n}_{i}" for i in range(words // 3))
        messages += [
            HumanMessage(f"Look at file {n}." if n else "Never touch infra/prod.yaml. Look at file 0."),
            AIMessage("", tool_calls=[call]),
            ToolMessage(text, tool_call_id=f"c{n}", name="read"),
            AIMessage(f"File {n} is fine."),
        ]
    times: list[float | None] = [i * gap for i in range(len(messages))]
    return Session("made", messages, times, [None] * len(messages), [], [{}] * len(messages))


def played(rounds: int, window: int = 8_000, gap: float = 10.0) -> ReplayReport:
    return replay(session(rounds, gap=gap), WindowPolicy(window=window), PRICES)


def test_e4_unmanaged_cost_grows_with_the_square_of_the_rounds_and_managed_does_not() -> None:
    half, full = played(25), played(50)
    prices = Prices.uncached()
    assert full.account is not None
    assert half.account is not None
    # Without a cache each token costs the same every time, which is where the square shows.
    plain = [replay(session(n), WindowPolicy(window=200_000), prices).unmanaged for n in (25, 50)]
    assert plain[1] / plain[0] > 3.4
    assert full.account.total("input") / half.account.total("input") < 2.6


def test_c23_a_call_every_ten_minutes_keeps_the_window_flat_and_loses_nothing() -> None:
    report = played(60, gap=600.0)
    inputs = [step.input for step in report.timeline]
    assert max(inputs[len(inputs) // 2 :]) <= report.lines.exhausted
    assert report.totals.refused == 0
    assert report.survived.lost == ()
    assert report.damaged == 0
    # Every request is cold: nothing was ever read from the cache, and the account says why.
    assert report.account is not None
    assert report.account.total("cached") == 0
    assert report.account.total("cold") > 0


def test_the_parts_of_a_replay_equal_its_whole_and_the_provider_agrees() -> None:
    report = played(12)
    account = report.account
    assert account is not None
    assert account.total("input") == report.totals.input_tokens
    assert account.total("cached") == report.totals.cached_tokens
    assert account.total("written") == report.totals.written_tokens
    assert abs(account.total("cost") - report.cost) < 1e-6
    for step in account.steps:
        assert sum(step.blocks.values()) == step.input
    assert account.checkpoint_bytes > 0
    assert 0 < account.governance_ms(0.5) <= account.governance_ms(0.95)


def test_planted_facts_are_in_sight_or_in_reach_and_what_was_never_said_is_lost() -> None:
    made = session(40)
    made.messages[4] = HumanMessage("The staging port is 48213. Look at file 1.")
    report = replay(
        made, WindowPolicy(window=8_000), PRICES, planted=["48213", "word20_3", "a word that was never said"]
    )
    found = {
        fact.text: where
        for where in ("in_sight", "in_reach", "lost")
        for fact in getattr(report.survived, where)
    }
    assert found["Never touch infra/prod.yaml."] == "in_sight"
    assert found["48213"] in ("in_sight", "in_reach")
    assert found["word20_3"] == "in_reach"
    assert found["a word that was never said"] == "lost"
