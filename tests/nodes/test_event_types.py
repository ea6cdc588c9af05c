"""The schema of the events: what is sent is in it, what is written about it is made from it."""

import re
from pathlib import Path
from typing import Any

import pytest

from headwater.nodes.event_table import written
from headwater.nodes.event_types import NoSuchEvent, event_of, types

ROOT = Path(__file__).parents[2]
HALT = {"type": "headwater.halt", "session": "s", "estimate": 9, "report": {"tail": 9}}


def test_every_event_that_is_sent_has_a_type_and_no_other_is_there() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "nodes").glob("*.py"))
    sent = {f"headwater.{name}" for name in re.findall(r'\bemit\(\s*"(\w+)"', sources)}
    assert set(types()) == sent


def test_each_says_what_it_is_and_whose() -> None:
    for kind in types().values():
        assert str(kind.__doc__).endswith(".")
        assert "session" in kind.__required_keys__  # type: ignore[attr-defined]


def test_the_page_is_the_one_that_is_made() -> None:
    """Make it with `python -m headwater.nodes.event_table docs/events.md`."""
    page = (ROOT / "docs/events.md").read_text("utf-8")
    assert written(page) == page


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        written("# Events")


def test_a_good_event_is_itself() -> None:
    assert event_of(HALT) == HALT
    assert event_of({**HALT, "estimate": None})["type"] == "headwater.halt"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"type": "headwater.hlat", "session": "s"}, "'headwater.hlat' is no event"),
        ({"session": "s"}, "'' is no event"),
        ({**HALT, "estimate": "9"}, "estimate = '9'"),
        ({**HALT, "report": {"tail": "9"}}, "report.tail = '9'"),
        ({"type": "headwater.halt", "session": "s", "report": {}}, "estimate"),
        ({**HALT, "more": 1}, "no field 'more'"),
    ],
)
def test_a_wrong_one_is_refused_with_what_is_wrong(wrong: dict[str, Any], said: str) -> None:
    if "type" not in wrong:
        said = "None is no event"
    with pytest.raises(NoSuchEvent, match=re.escape(said)):
        event_of(wrong)
