"""Comparing policies, and the command line of the lab."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from rich.console import Console

from headwater.cli import main
from headwater.cli_lab import rows_table
from headwater.lab.compare import POLICIES, Row, UnknownPolicy, cheapest, compare, parse_policy, row_of
from headwater.window import Prices, WindowPolicy
from headwater.window.policy import PolicyError
from tests.lab.test_account import played, session


def line(message: BaseMessage) -> dict[str, object]:
    if isinstance(message, AIMessage):
        calls = [
            {
                "id": c["id"],
                "type": "function",
                "function": {"name": c["name"], "arguments": json.dumps(c["args"])},
            }
            for c in message.tool_calls
        ]
        return {"role": "assistant", "content": message.content, "tool_calls": calls}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "content": message.content, "tool_call_id": message.tool_call_id}
    assert isinstance(message, HumanMessage)
    return {"role": "user", "content": message.content}


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "made.jsonl"
    rows = [json.dumps(line(message)) for message in session(8).messages]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_policies_are_read_from_names_and_settings() -> None:
    assert parse_policy("default", 8_000) == WindowPolicy(window=8_000)
    told = parse_policy("background=false,provider=deepseek,governance=none,history=0.1", 8_000)
    assert (told.background, told.provider, told.governance, told.history) == (False, "deepseek", None, 0.1)
    mixed = parse_policy("late,arrival=4000,summarise=never", 32_000)
    assert (mixed.offload, mixed.arrival, mixed.summarise) == (0.8, 4_000, "never")
    for name in POLICIES:
        assert parse_policy(name, 32_000).window == 32_000


@pytest.mark.parametrize("text", ["lte", "window=5", "offload=high", "offlod=0.5"])
def test_an_unknown_policy_says_which_there_are(text: str) -> None:
    with pytest.raises(UnknownPolicy, match=r"there are default|is not a number"):
        parse_policy(text, 32_000)
    with pytest.raises(PolicyError):
        parse_policy("offload=0.9,compact=0.5", 32_000)


def test_m16_rows_are_sums_over_the_sessions_and_show_what_a_policy_buys() -> None:
    rows = [
        row for row, _ in compare([session(30)], ["default", "no-summary", "unmanaged"], [8_000], Prices())
    ]
    assert [row.policy for row in rows] == ["default", "unmanaged", "no-summary"]
    for row in rows:
        assert row.input == row.cached + row.new + row.cold + row.edit
        assert row.sound
    assert rows[1].cost == rows[0].unmanaged


def test_the_cheapest_is_sound_and_keeps_its_share_in_sight() -> None:
    good = row_of("good", 8_000, [played(4)])
    lossy = replace(good, policy="lossy", cost=1.0, lost=1)
    blind = replace(good, policy="blind", cost=2.0, in_sight=0.2)
    rows: list[Row] = [good, lossy, blind, replace(good, policy="dear", cost=good.cost + 1)]
    assert cheapest(rows, 0.5) == good
    assert cheapest(rows, 0.1) == blind
    assert cheapest([lossy], 0.0) is None


def test_replay_prints_a_table_json_and_a_page(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    call = ["replay", str(recorded), "--policy", "default", "--policy", "lean", "--window", "8k,32k"]
    assert main([*call, "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert out.count("default") == 2
    assert out.count("lean") == 2
    assert "Headwater" in page.read_text(encoding="utf-8")
    assert main([*call, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(r["policy"], r["window"], r["lost"]) for r in rows] == [
        ("default", 8_000, 0), ("lean", 8_000, 0), ("default", 32_000, 0), ("lean", 32_000, 0),
    ]  # fmt: skip


def test_e20_inspect_names_what_is_wrong(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(recorded)]) == 0
    assert "made: plain, 32 messages, 16 model calls" in capsys.readouterr().out
    assert main(["inspect", str(recorded), "--json", "--window", "2k"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {f["disease"] for f in found} >= {"squeeze-out"}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (["replay", "{made}", "--policy", "lte"], "is no policy"),
        (["replay", "{none}"], "is not there; check the path"),
        (["inspect", "{text}"], "expected"),
        (["replay", "{made}", "--write", "-1"], "prices need"),
    ],
)
def test_mistakes_end_in_one_line(
    call: list[str], said: str, recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("Dear diary\n", encoding="utf-8")
    names = {"made": recorded, "none": tmp_path / "none.jsonl", "text": text}
    assert main([part.format(**names) for part in call]) == 2
    assert said in capsys.readouterr().err


def test_a_window_is_written_as_people_write_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replay", "x", "--window", "big"])
    assert "no number of tokens" in capsys.readouterr().err


@pytest.mark.parametrize("width", [80, 100, 112, 160])
def test_a_figure_is_whole_on_every_screen(width: int) -> None:
    """Names of policies are folded, figures never cut; on a narrow screen there are fewer of them."""
    sums = Row("", 200_000, 9, 4_965, 634_000_000, 582_000_000, 31_830_000, 8_180_000, 9_660_000, 82_400_000,
               1e9, 110, 0.94, 0, 0, 0, 0, 0, 138.0)  # fmt: skip
    rows = [replace(sums, policy=name) for name in ("default", "offload=0.5,keep_tags=10,arrival=4000")]
    rows.append(replace(sums, policy="unmanaged", window=0))
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(rows_table(rows, width=width))
    text = console.export_text()
    assert "…" not in text
    for figure in ("200,000", "4,965", "634.00M", "582.00M", "82.40M", "0.082", "94%", "138"):
        assert text.count(figure) >= 2, figure
    assert ("31.83M" in text) is (width >= 112)
