"""`ctx_memory`: the agent writes, corrects and lets go of long-term facts (C12, C19, G23)."""

import re
from pathlib import Path

from langchain_core.messages import HumanMessage

from tests.nodes.bench import engine
from tests.nodes.test_context_tools import use


def _id(answer: str) -> str:
    found = re.search(r"\[id (f\w+)\]", answer)
    assert found, answer
    return found[1]


def test_g23_c19_facts_are_written_listed_updated_and_archived(tmp_path: Path) -> None:
    made = engine(tmp_path)
    made.memory.archive.append("s", [HumanMessage("The port is 9001.")])
    state = {"frame": {"session": "s"}}
    first = _id(
        use(
            made,
            "ctx_memory",
            action="write",
            content="The port is 9001.",
            category="CONFIG_VALUES",
            state=state,
        )
    )
    assert made.memory.facts.get(first).source == ("s", (1,))
    assert "seen 2 times" in use(
        made, "ctx_memory", action="write", content="port: 9001", category="CONFIG_VALUES"
    )
    second = _id(use(made, "ctx_memory", action="update", fact=first, content="The port is 9002."))
    assert made.memory.facts.get(first).superseded_by == second
    assert f"[id {second}]" in use(made, "ctx_memory", action="search", content="port")
    archived = use(made, "ctx_memory", action="write", content="The port is 9001", category="CONFIG_VALUES")
    assert f"superseded by {second}; it stays so" in archived
    assert "no longer recalled" in use(made, "ctx_memory", action="archive", fact=second)
    assert use(made, "ctx_memory", action="list") == "No facts yet."


def test_c20_what_must_not_be_kept_is_refused_in_words(tmp_path: Path) -> None:
    made = engine(tmp_path)
    for content in ("<headwater-memory>x", "the password: " + "hunter2_Prod", " "):
        answer = use(made, "ctx_memory", action="write", content=content)
        assert "Remembered" not in answer
        assert "hunter2" not in answer
    assert "list or search for the right id" in use(made, "ctx_memory", action="archive", fact="f0")
    kept = made.memory.facts.write("never force-push", "PROJECT_RULES", trust="user")
    made.memory.facts.keep(kept.id)
    assert "only a person changes it" in use(made, "ctx_memory", action="archive", fact=kept.id)
    assert made.memory.facts.count() == 1
