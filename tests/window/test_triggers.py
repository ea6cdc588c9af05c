"""When a background summary is due."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from headwater.window.policy import WindowPolicy
from headwater.window.triggers import Sign, Tail, clusters, due, sign_of, trigger_budget


@pytest.mark.parametrize(("window", "budget"), [(200_000, 6_500), (1_000_000, 32_500), (100_000, 5_000)])
def test_g15_the_budget_is_five_percent_of_what_may_be_used(window: int, budget: int) -> None:
    assert trigger_budget(window, 0.65) == budget
    assert trigger_budget(10_000_000, 0.65) == 50_000


@pytest.mark.parametrize(
    ("tail", "share", "projected", "reason"),
    [
        (Tail(19_499, 50), 0.1, 0.1, ""),
        (Tail(19_500, 50), 0.1, 0.1, "size"),
        (Tail(6_500, 50, 3), 0.1, 0.1, "commits"),
        (Tail(6_499, 50, 3), 0.1, 0.1, ""),
        (Tail(6_500, 50, 2), 0.1, 0.1, ""),
        (Tail(6_000, 2), 1.0, 0.8, "pressure"),
        (Tail(100, 12), 1.0, 0.8, "pressure"),
        (Tail(100, 11), 1.0, 0.8, ""),
        (Tail(6_000, 2), 1.0, 0.7, ""),
        (Tail(10, 1), 2.0, 0.1, "line"),
        (Tail(0, 0), 2.0, 2.0, ""),
    ],
)
def test_g15_each_trigger_at_its_threshold(tail: Tail, share: float, projected: float, reason: str) -> None:
    lines = WindowPolicy(window=200_000).lines()
    estimate, after = int(share * lines.offload), int(projected * lines.offload)
    assert due(tail, lines=lines, threshold=0.65, estimate=estimate, projected=after) == reason


def test_g15_commit_clusters_are_parted_by_meaningful_turns() -> None:
    said = ["Committed as 1a2b3c4.", "ok", "已提交 9f8e7d6c，测试通过。", "Now build the importer, please."]
    signs: list[Sign] = [sign_of(AIMessage(t) if i % 2 == 0 else HumanMessage(t)) for i, t in enumerate(said)]
    assert signs == ["commit", "", "commit", "turn"]
    assert clusters([*signs, *signs, "commit"]) == 3
    assert sign_of(HumanMessage("接下来请实现导入功能")) == "turn"
    assert sign_of(AIMessage("deadbee is a word, no commit")) == ""
