"""An image too many hides older ones: that moves the prefix, and is said (case 32, G10)."""

from itertools import pairwise
from pathlib import Path

from langgraph.checkpoint.memory import InMemorySaver

from headwater import WindowPolicy, build_agent
from headwater.lab.provider import Reply, StrictProvider
from tests.graph.world import Event, config, memory_in, of, pieces_of, watch

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LIMIT = 20


def test_g10_case_32_a_request_that_hides_another_image_is_not_said_to_defer(tmp_path: Path) -> None:
    """Every request said to DEFER extends the one before; those that hide more images are said to move."""
    with StrictProvider(lambda request: Reply("Seen."), keep_raw=True) as provider:
        agent = build_agent(
            provider.anthropic(),
            policy=WindowPolicy(window=200_000),
            memory=memory_in(tmp_path),
            checkpointer=InMemorySaver(),
        )
        events: list[Event] = []
        for number in range(LIMIT + 12):
            text = {"type": "text", "text": f"Picture {number}."}
            picture = {"type": "image_url", "image_url": {"url": PIXEL}}
            events += watch(agent, {"messages": [("user", [text, picture])]}, config())
        assert provider.violations == []
        sent = [pieces_of(exchange) for exchange in provider.requests]
    kinds = [event["kind"] for event in of(events, "request")]
    assert max(b"".join(pieces).count(b'"type":"image"') for pieces in sent) == LIMIT
    extends = [now[: len(before)] == before for before, now in pairwise(sent)]
    assert [kind == "defer" for kind in kinds[1:]] == extends
    assert extends.count(False) == 2, "half of the limit at a time"
