"""The page of a replay: self-contained, within its size, and worked by keyboard in a real browser."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from rich.console import Console

from headwater.lab.compare import compare
from headwater.lab.live import LivePage, LiveWindow, Watched, columns
from headwater.lab.page import NothingToShow, page_data, page_of, write_page
from headwater.lab.plot import plot_window
from headwater.lab.replay import ReplayReport, replay
from headwater.window import Prices, WindowPolicy
from tests.lab.test_account import played, session

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LINES = {"window": 400, "usable": 360, "offload": 200, "compact": 300, "exhausted": 340}


@pytest.fixture(scope="module")
def report() -> ReplayReport:
    return played(30)


@pytest.fixture(scope="module")
def page(report: ReplayReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    [(row, _), *_rest] = compare([session(4)], ["default"], [8_000], Prices())
    return write_page(tmp_path_factory.mktemp("page") / "report.html", report, rows=[row])


def test_the_page_loads_nothing_and_says_so_in_its_policy(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]+", text) == []
    assert set(re.findall(r"https?://[^\s\"']+", text.partition('id="data"')[0])) == set()
    assert "default-src 'none'" in text
    assert len(text.encode()) < 3_000_000


def test_the_page_shows_the_figures_of_the_report(report: ReplayReport) -> None:
    data = page_data(report)
    assert len(data["steps"]) == report.steps
    assert sum(step["cost"] for step in data["steps"]) == pytest.approx(report.cost, abs=report.steps)
    for step in data["steps"]:
        assert sum(step["blocks"].values()) == step["input"] == sum(step["spent"].values())
    tiles = {key: value for key, value, *_ in data["tiles"]}
    assert tiles["t_lost"] == 0
    assert tiles["t_refused"] == 0
    assert json.loads(json.dumps(data)) == data


def test_the_tiers_shown_are_those_of_the_policy_that_was_replayed() -> None:
    wide = replay(session(60), WindowPolicy(window=8_000), Prices())
    narrow = replace(wide, policy=WindowPolicy(window=8_000, history=0.01))
    assert wide.policy.window == 8_000
    assert len(wide.compartments) > 1
    tiers = [[part["tier"] for part in page_data(report)["compartments"]] for report in (wide, narrow)]
    assert sum(tiers[0]) < sum(tiers[1])


def test_a_recorded_text_cannot_break_out_of_the_page(report: ReplayReport) -> None:
    text = page_of({**page_data(report), "name": "</script><script>alert(1)</script>"})
    assert "<script>alert(1)" not in text


def test_a_session_without_a_step_is_refused(report: ReplayReport) -> None:
    with pytest.raises(NothingToShow, match="made no step"):
        page_data(ReplayReport("s", 1, 0, 0, report.totals, 0, 0, 0, 0, 0, 0, 0, 0, 0))


def test_the_same_figures_are_drawn_for_notebooks(report: ReplayReport) -> None:
    figure = plot_window(report, title="made")
    assert len(figure.axes) == 2


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright to drive a browser")
    if CHROMIUM is None:
        pytest.skip("needs a Chromium on the path")
    with api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def test_the_page_works_in_a_browser_by_keyboard_alone(page: Path, browser: Any) -> None:
    view = browser.new_page(viewport={"width": 1200, "height": 900})
    faults: list[str] = []
    asked: list[str] = []
    view.on("pageerror", lambda error: faults.append(str(error)))
    view.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    view.on("request", lambda request: asked.append(request.url))
    view.goto(page.as_uri() + "#lang=en&theme=light")
    assert faults == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    slider = view.locator("#window")
    assert slider.locator("path").count() >= 4
    last = int(slider.get_attribute("aria-valuenow"))
    slider.focus()
    view.keyboard.press("ArrowLeft")
    assert int(slider.get_attribute("aria-valuenow")) == last - 1
    view.keyboard.press("Home")
    assert slider.get_attribute("aria-valuenow") == "1"
    assert "step 1" in view.locator("#detail").inner_text()
    view.locator("#lang").focus()
    view.keyboard.press("Enter")
    assert view.locator("h2").first.inner_text() == "窗口随时间的变化"
    assert view.evaluate("document.documentElement.lang") == "zh-CN"
    view.locator("#theme").focus()
    view.keyboard.press("Enter")
    assert view.evaluate("document.documentElement.dataset.theme") == "dark"
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    view.close()


def test_every_word_of_the_page_is_in_both_languages(page: Path, browser: Any) -> None:
    view = browser.new_page()
    view.goto(page.as_uri())
    english, chinese = (view.evaluate(f"Object.keys(WORDS.{lang}).sort()") for lang in ("en", "zh"))
    assert english == chinese
    view.close()


def events(steps: int) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for n in range(steps):
        mark = {
            "type": "headwater.watermark",
            "session": "s",
            "estimate": 210,
            "level": "OFFLOAD",
            "lines": LINES,
        }
        usage = {"input_tokens": 100 + n, "input_token_details": {"cache_read": 60}}
        out += (
            [mark, {"type": "headwater.offload", "session": "s", "tags": [1]}]
            if n % 2
            else [{**mark, "level": "NORMAL", "estimate": 90}]
        )
        out.append(
            {"type": "headwater.request", "session": "s", "tokens": 1, "usage": usage, "kind": "defer"}
        )
    delegated = {"type": "headwater.delegate", "session": "s/child", "agent": "scout", "brief": "look"}
    child = {"type": "headwater.request", "session": "s/child", "tokens": 5, "usage": {}, "kind": "defer"}
    return [*out, delegated, child]


def test_the_terminal_shows_the_window_while_it_runs() -> None:
    console = Console(width=80, force_terminal=True, record=True, color_system=None)
    with LiveWindow(console) as live:
        assert list(live.watch(events(6))) == events(6)
    text = console.export_text()
    assert "window 400" in text
    assert "step 6" in text
    assert "210 → 105" in text


def test_in_a_pipe_only_steps_that_moved_something_are_printed() -> None:
    console = Console(width=80, force_terminal=False, record=True)
    with LiveWindow(console) as live:
        for event in events(4):
            live.event(event)
    assert console.export_text().count("offload") == 2


def test_columns_grow_with_what_was_sent() -> None:
    few, many = ({"input": size, "level": "NORMAL"} for size in (40, 400))
    rows = columns([few, many], LINES, 20)
    assert sum("█" in row.plain[:2] for row in rows) == 12


def test_the_live_page_follows_the_run_and_answers_only_this_machine() -> None:
    watched = Watched("my agent")
    with LivePage(watched) as served:
        for event in events(5):
            watched.event(event)
        with urlopen(served.url + "data") as answer:
            data = json.load(answer)
        assert [step["input"] for step in data["steps"]] == [100, 101, 102, 103, 104]
        assert data["steps"][1]["moves"] == ["offload"]
        assert data["steps"][0]["blocks"] == {"cached": 60, "fresh": 40}
        assert [(c["name"], c["calls"]) for c in data["tree"]["children"]] == [("scout", 1)]
        with urlopen(served.url) as answer:
            assert "my agent" in answer.read().decode()
        with pytest.raises(HTTPError, match="403") as refused:
            urlopen(Request(served.url + "data", headers={"Host": "evil.example"}))
        refused.value.close()
        with pytest.raises(HTTPError, match="404") as missing:
            urlopen(served.url + "other")
        missing.value.close()


def test_the_live_page_draws_in_a_browser(browser: Any) -> None:
    watched = Watched("my agent")
    with LivePage(watched) as served:
        for event in events(5):
            watched.event(event)
        view = browser.new_page()
        faults: list[str] = []
        view.on("pageerror", lambda error: faults.append(str(error)))
        view.goto(served.url)
        watched.event(
            {"type": "headwater.request", "session": "s", "tokens": 77, "usage": {}, "kind": "defer"}
        )
        view.locator("#window[aria-valuenow='6']").wait_for(timeout=20_000)
        assert faults == []
        view.close()
