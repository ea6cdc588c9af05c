"""The tree of agents shows who works under whom, and how each ended."""

import io
from pathlib import Path

from rich.console import Console

from headwater import Budget, SubAgent, WindowPolicy, build_agent
from headwater.lab.agent_tree import watch_tree
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from tests.graph.world import config, memory_in, says


def script(request: Request) -> Reply:
    """A lead delegates to a chief, the chief to a scout, the scout to nobody it may."""
    if any(row["role"] == "tool" for row in request.messages):
        return Reply("Done.")
    name = "chief" if "You lead" in request.system else "scout"
    brief = f"go {len(request.system)}"
    return Reply("", (ToolCall("delegate", {"agent": name, "brief": brief}),))


def test_the_tree_is_shown_with_steps_and_ends(tmp_path: Path) -> None:
    scout = SubAgent("scout", "looks", "You scout.", subagents=["scout"])
    chief = SubAgent("chief", "leads scouts", "You are the chief.", subagents=[scout], budget=Budget(depth=1))
    shown = io.StringIO()
    for terminal in (False, True):
        with (
            memory_in(tmp_path / str(terminal)) as memory,
            StrictProvider(script, window=16_000) as provider,
        ):
            agent = build_agent(
                provider.openai(),
                system_prompt="You lead.",
                subagents=[chief],
                policy=WindowPolicy(window=16_000),
                memory=memory,
            )
            console = Console(file=shown, force_terminal=terminal, width=120)
            tree = watch_tree(agent.stream(says("Go."), config(), stream_mode="custom"), console, "lead")
        names = {seen.name: seen for seen in tree.agents.values()}
        assert set(names) == {"lead", "chief", "scout"}
        assert names["chief"].status == names["scout"].status == "done"
        assert names["lead"].steps == names["chief"].steps == names["scout"].steps == 2
    text = shown.getvalue()
    assert text.index("lead") < text.index("chief") < text.index("scout")
    assert "2 steps" in text
