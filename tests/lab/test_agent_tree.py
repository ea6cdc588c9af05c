"""The tree of agents shows who works under whom, and how each ended."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from headwater import Budget, SubAgent, WindowPolicy, build_agent
from headwater.lab.agent_tree import AgentTree, Seen, watch_tree
from headwater.lab.fonts import cjk_family, columns
from headwater.lab.plot_tree import plot_agents
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


BRIEFS = {
    "en": "Count the classes of every package below langchain_core, and say which has the most.",
    "zh": "数一数 langchain_core 下面每个包里的类，并说出哪一个包里的类最多，以及为什么会这样。",
}


@pytest.mark.parametrize("language", BRIEFS)
def test_a_long_brief_stays_in_its_box_in_either_language(language: str) -> None:
    tree = AgentTree("主管" if language == "zh" else "lead")
    order = {"type": "headwater.delegate", "session": "t/1", "parent": "t", "agent": "scout"}
    tree.event({**order, "brief": BRIEFS[language]})
    if language == "zh" and cjk_family() is None:
        pytest.skip("no font for Chinese here")
    figure = plot_agents(tree, title="两个智能体" if language == "zh" else "Two agents")
    # A letter that no font has would be a warning, and so an error.
    figure.savefig(io.BytesIO(), format="png")
    boxes = [patch.get_window_extent() for patch in figure.axes[0].patches]
    words = [text.get_window_extent() for text in figure.axes[0].texts][: len(boxes)]
    for box, text in zip(boxes, words, strict=True):
        assert box.x0 < text.x0 < text.x1 < box.x1
        assert box.y0 < text.y0 < text.y1 < box.y1


def test_a_brief_is_cut_by_columns() -> None:
    assert Seen("a", brief="short  one").short_brief(9) == "short one"
    assert Seen("a", brief="检查 db 的日志").short_brief(8) == "检查 db…"
    assert columns("检查 db") == 7
