"""What must survive 10, 50 and 200 compactions with a summariser that drops, and denies, whatever it may.

One long session holds the scenarios of the sources together: the database fault (E17), the plan that was
rejected (C21), the first constraint beside an equally old listing (C22), and the decision somebody asks for
half a year later (G36). Its model proposes the first remedy that its request does not exclude: what it cannot
see, it repeats.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool

from headwater.lab.provider import Reply, Request, ToolCall
from headwater.window.cues import identifiers
from headwater.window.frame import Frame
from tests.graph.promises import Trial, Turn, check_archive
from tests.graph.read_back import THREAD, expanded, tools_of
from tests.graph.stage import staged
from tests.graph.world import shown

MARKS = [10, 50, 200]
DAY = 86_400.0
LISTING = "\n".join(f"entry-{i:03d}.log" for i in range(200))
SESSIONS = {
    "en": {
        "start": [
            "Queries hang since noon; find the cause. Never propose restarting the database.",
            "Do not touch config.yaml. List the logs.",
            "We tried raising max_connections, it did not help.",
            "We tried vacuuming the table, it did not help.",
            "We go with plan B, plan A was rejected.",
            "We decided to use SQLite because the plant has no network.",
        ],
        "pins": [
            "Never propose restarting the database.",
            "Do not touch config.yaml.",
            "We tried raising max_connections, it did not help.",
            "We tried vacuuming the table, it did not help.",
            "We go with plan B, plan A was rejected.",
            "We decided to use SQLite because the plant has no network.",
        ],
        "options": [
            "restarting the database",
            "raising max_connections",
            "vacuuming the table",
            "plan A",
            "plan B",
        ],
        "propose": "I propose {}.",
        "filler": "Log {}-{} shows nothing unusual in this part of the plant.",
        "order": "Order {0}: look at db-{0}.plant.local:5432, see ticket OPS-{0} and /srv/logs/{0}.log.",
        "lie": "Plan A was approved and the database may be restarted.",
        "why": "Why did we choose SQLite?",
        "because": "because the plant has no network",
    },
    "zh": {
        "start": [
            "查询从中午起一直卡住，请找出原因。禁止重启数据库。",
            "不要修改 config.yaml。请列出日志。",
            "我们试过调大 max_connections，没有效果。",
            "我们试过清理表空间，没有效果。",
            "就用方案B，方案A已经否决。",
            "我们决定采用 SQLite，因为工厂没有网络。",
        ],
        "pins": [
            "禁止重启数据库。",
            "不要修改 config.yaml。",
            "我们试过调大 max_connections，没有效果。",
            "我们试过清理表空间，没有效果。",
            "就用方案B，方案A已经否决。",
            "我们决定采用 SQLite，因为工厂没有网络。",
        ],
        "options": ["重启数据库", "调大 max_connections", "清理表空间", "方案A", "方案B"],
        "propose": "我建议{}。",
        "filler": "日志 {}-{} 没有显示工厂这一部分有任何异常情况。",
        "order": "任务{0}：查看 db-{0}.plant.local:5432，工单 OPS-{0}，日志在 /srv/logs/{0}.log。",
        "lie": "方案A已经批准，可以重启数据库。",
        "why": "为什么选择 SQLite？",
        "because": "因为工厂没有网络",
    },
}


@tool
def ls(path: str) -> str:
    """List a folder."""
    return LISTING


class Survivor:
    """The session of one language, led as far as a test asks."""

    def __init__(self, trial: Trial, language: str) -> None:
        self.trial = trial
        self.words: dict[str, Any] = SESSIONS[language]
        self.stated: list[str] = []
        self.proposals: list[str] = []
        self.tools = tools_of(trial.engine)
        trial.stage.main, trial.stage.cheap = self._speak, self._forget
        pins = iter(self.words["pins"])
        for number, text in enumerate(self.words["start"]):
            self._say(text, [next(pins)], calls=[ToolCall("ls", {"path": "/"})] if number == 1 else [])

    def reach(self, compactions: int) -> None:
        """Go on with order after order, a day apart each fifth time, until it was compacted so often."""
        while self.trial.compactions < compactions:
            number = self.trial.rounds
            assert number < 12 * compactions + 60, "it never gets there"
            self.trial.stage.now += DAY if number % 5 == 0 else 20.0
            self._say(self.words["order"].format(number), [])

    @property
    def request(self) -> str:
        """What the newest request shows."""
        return shown(next(r for r in reversed(self.trial.stage.asked) if not r.purpose))

    def search(self, query: str) -> str:
        """What `ctx_search` finds, asked as the model would."""
        state = {"frame": Frame(session=THREAD).to_state()}
        return str(self.tools["ctx_search"].invoke({"query": query, "state": state}))

    def _say(self, text: str, pins: list[str], calls: list[ToolCall] | None = None) -> None:
        self.stated += [name for name in identifiers(text) if name not in self.stated]
        self.trial.say(text, Turn(calls=calls or ()), pins, durability="exit")

    def _speak(self, request: Request) -> Reply:
        """A long answer that ends with the first remedy that the request does not rule out."""
        turn = self.trial.turn
        turn.asked += 1
        if turn.calls and turn.asked == 1:
            return Reply("", tuple(turn.calls))
        seen, number = shown(request), self.trial.rounds
        out = "never propose|did not help|was rejected|禁止|没有效果|已经否决"
        chosen = next(
            option
            for option in self.words["options"]
            if not re.search(
                rf"(?:{out})[^.。§]*{option}|{option}[^.。§,，]*[,，]? ?[^.。§]*?(?:{out})", seen, re.I
            )
            or (option in ("plan B", "方案B"))
        )
        self.proposals.append(chosen)
        said = " ".join(self.words["filler"].format(number, i) for i in range(90))
        return Reply(f"{said} {self.words['propose'].format(chosen)}")

    def _forget(self, request: Request) -> Reply:
        """The worst summary that the checks let through: no name in it, unimportant, and a lie."""
        lie = self.words["lie"]
        work = {"goal": lie, "constraints": [lie], "decisions": [lie], "next_steps": [lie]}
        tiers = dict.fromkeys(("p2", "p3", "p4"), lie)
        return Reply(json.dumps({"title": lie, "p1": lie, **tiers, "importance": 1, "work": work}))


@pytest.fixture(
    scope="module", params=[(words, mark) for words in SESSIONS for mark in MARKS], ids="{0[0]}-{0[1]}".format
)
def survivor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivor]:
    """A session of its own for each language and number of compactions, led exactly so far."""
    root: Path = tmp_path_factory.mktemp("survivor")
    language, compactions = request.param
    with staged() as made, Trial(made, root, summarizer=True, own_tools=[ls]) as trial:
        led = Survivor(trial, language)
        led.reach(compactions)
        yield led


def test_e17_c21_what_was_ruled_out_is_never_proposed_again(survivor: Survivor) -> None:
    """E17, C21: excluded options, the rejected restart and plan A stay out of every proposal; the pins are
    in every request (checked as each is sent), though each summary says the contrary.
    """
    assert set(survivor.proposals[6:]) == {survivor.words["options"][-1]}
    assert survivor.words["lie"] in survivor.request, "the summariser did get past the checks"


def test_c22_the_first_constraint_outlives_a_listing_as_old(survivor: Survivor) -> None:
    """C22: position does not decide: the constraint is in sight, the 200 entries are one call away."""
    assert survivor.words["pins"][1] in survivor.request
    assert "entry-150.log" not in survivor.request
    tag = next(t for t, m in survivor.trial.memory.archive.read(THREAD, 1, 30) if m.content == LISTING)
    assert expanded(survivor.tools, tag) == LISTING


def test_g36_c19_why_we_chose_sqlite_is_still_answerable(survivor: Survivor) -> None:
    """G36: the question itself finds the reason; the told history opens to the message that gave it."""
    assert survivor.words["because"] in survivor.search(survivor.words["why"])
    log = survivor.trial.memory.archive.read(THREAD, 1, 40)
    tag = next(t for t, m in log if survivor.words["because"] in str(m.content))
    ranges = re.findall(r"§(\d+)–(\d+)§", survivor.request)
    assert any(int(first) <= tag <= int(last) for first, last in ranges), "no way back is shown"
    assert survivor.words["because"] in expanded(survivor.tools, tag)


def test_c15_each_identifier_a_user_stated_is_in_sight_or_one_search_away(survivor: Survivor) -> None:
    """C15, E12: with nothing but lies from the summariser, no name that the user gave is out of reach."""
    # Four names stand in the start, three in each order.
    assert len(survivor.stated) == 4 + 3 * (survivor.trial.rounds - len(survivor.words["start"]))
    text = survivor.request
    missing = [name for name in survivor.stated if name not in text and name not in survivor.search(name)]
    assert missing == []


def test_m10_c20_after_any_number_of_compactions_every_tag_opens(survivor: Survivor) -> None:
    """M10: all that was ever said or returned comes back byte for byte, by the tools the model has."""
    check_archive(survivor.trial)
