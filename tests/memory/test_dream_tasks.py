"""Each of the dreamer's tasks: what it may touch, what it must leave, with a model and without."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolCall

from headwater.lab.provider import Refuse, Reply, Request, StrictProvider
from headwater.memory import Memory
from headwater.memory.dream_likeness import compatible, keeps
from headwater.memory.dream_model import MAX_OUTPUT, Asker
from headwater.memory.dream_project import KEY_FILES, section_of, with_section
from headwater.memory.purport import purport
from tests.memory.dreaming import DAY, NIGHT, SESSION, Clock, dreamer, git, memory_in, project_in, told

Script = Callable[[Request], Any]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(tmp_path: Path, clock: Clock) -> Iterator[Memory]:
    with memory_in(tmp_path / "m", clock) as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return project_in(tmp_path / "p")


def live(memory: Memory) -> list[str]:
    return [fact.content for fact in memory.facts.list(live=True)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Use tabs in Makefiles", "use tabs in makefiles."),
        ("The port is 5432.", "port: 5432"),
        ("请注意：端口是 5432", "端口是5432。"),
        ("Note that tests run with pytest", "tests run with pytest"),
        ("ＡＰＩ 版本 2", "API 版本 2"),
    ],
)
def test_g16_consolidate_joins_what_says_the_same(one: str, other: str, memory: Memory, clock: Clock) -> None:
    first = memory.facts.write(one, "NAMING", now=NIGHT - DAY, importance=30)
    # Those of one category are joined where they are written.
    second = memory.facts.write(other, "CONFIG_VALUES", now=NIGHT, importance=70)
    dreamer(memory, None, clock).dream("consolidate", now=True)
    kept, gone = memory.facts.get(second.id), memory.facts.get(first.id)
    assert (kept.seen, kept.importance, kept.live) == (2, 70, True)
    assert (gone.status, gone.superseded_by) == ("archived", kept.id)


DIFFERENT = [
    ("the port is 5432", "the port is 5433"),
    ("use tabs", "do not use tabs"),
    ("use tabs, not spaces", "use spaces, not tabs"),
    ("端口是 5432", "端口是 5433"),
    ("可以重启数据库", "不可以重启数据库"),
    ("offset is 5", "offset is -5"),
    ("written in C", "written in C++"),
    ("read env first", "read .env first"),
    ("keep at least 3 copies", "keep at most 3 copies"),
    ("migrate from A1 to B1", "migrate to A1 from B1"),
    ("the port was 80", "the port is 80"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_g16_what_differs_in_a_number_a_sign_or_a_negation_stays_apart(
    one: str, other: str, memory: Memory, clock: Clock
) -> None:
    memory.facts.write(one, "CONSTRAINTS", now=NIGHT)
    memory.facts.write(other, "NAMING", now=NIGHT)
    before = live(memory)
    assert len(before) == 2
    dreamer(memory, None, clock).dream("consolidate", now=True)
    assert live(memory) == before
    assert purport(one) != purport(other)


def test_g16_a_model_joins_across_languages_but_never_against_the_numbers(
    memory: Memory, clock: Clock
) -> None:
    write = memory.facts.write
    write("The service listens on port 8080", "CONFIG_VALUES", now=NIGHT - DAY)
    write("服务监听端口 8080", "CONFIG_VALUES", now=NIGHT)
    write("The service listens on port 8081", "CONFIG_VALUES", now=NIGHT)
    asked: list[Any] = []

    def same(request: Request) -> Reply:
        asked.append(request.messages[-1]["text"])
        return Reply("```json\n[1, 2, 3, 99, true]\n```")

    with StrictProvider(same, window=32_000) as provider:
        report = dreamer(memory, None, clock, model=provider.openai()).dream("consolidate", now=True)
        assert provider.violations == []
    assert live(memory) == ["The service listens on port 8080", "The service listens on port 8081"]
    assert report.tokens > 0
    assert "by the model's judgement" in report.text()
    assert "8081" not in asked[0].split("<material>")[1]


def test_g16_permanent_facts_and_the_users_words_are_not_put_away(memory: Memory, clock: Clock) -> None:
    write = memory.facts.write
    old = NIGHT - 400 * DAY
    kept = [
        write("the logo is green", "NAMING", now=old, importance=5, trust="user"),
        memory.facts.keep(write("the logo is round", "NAMING", now=old, importance=5).id),
        write("must use python 3.11", "CONSTRAINTS", now=old, importance=5),
        write("we cache because the API is slow", "ARCHITECTURE", now=old, importance=5),
        write("上线前必须备份", "CONSTRAINTS", now=old, importance=5),
        write("the release is called otter", "NAMING", now=NIGHT - 10 * DAY, importance=5),
        write("the queue is kafka", "ARCHITECTURE", now=old, importance=90),
    ]
    stale = write("the mascot is an otter", "NAMING", now=old, importance=5)
    session = write("look at part 3 next", "NAMING", now=NIGHT - 20 * DAY, scope="session", importance=90)
    report = dreamer(memory, None, clock).dream("archive-stale", now=True)
    assert set(told(report, "archive-stale")) == {stale.id, session.id}
    assert all(memory.facts.get(fact.id).live for fact in kept)


def test_g16_verify_holds_facts_against_files_and_commits(
    memory: Memory, project: Path, clock: Clock
) -> None:
    head = git(project, "rev-parse", "--short=10", "HEAD")
    (project / "lib").mkdir()
    (project / "app/store/db.py").rename(project / "lib/db.py")
    write = memory.facts.write
    port = write("app/config.toml: port = 5432", "CONFIG_VALUES", now=NIGHT)
    named = write('in app/config.toml the name is "shop"', "CONFIG_VALUES", now=NIGHT)
    users = write("app/config.toml must keep port = 5432", "CONFIG_VALUES", now=NIGHT, trust="user")
    gone = write("old/legacy.py holds the importer", "ARCHITECTURE", now=NIGHT)
    absent = write("old/legacy.py was removed", "ARCHITECTURE", now=NIGHT)
    moved = write("app/store/db.py connects to SQLite", "ARCHITECTURE", now=NIGHT)
    never = write("app/other.py does the rest", "ARCHITECTURE", now=NIGHT)
    outside = write("../../etc/passwd.txt is not ours", "ARCHITECTURE", now=NIGHT)
    real = write(f"commit {head} removed the importer", "ARCHITECTURE", now=NIGHT)
    lost = write("commit deadbeef12 added the shop", "ARCHITECTURE", now=NIGHT)
    dreams = dreamer(memory, project, clock)
    reasons = told(dreams.dream("verify", now=True), "verify")
    assert reasons[port.id] == "app/config.toml says port = 5433"
    assert reasons[gone.id] == "old/legacy.py is gone from the project"
    assert reasons[moved.id] == "app/store/db.py is lib/db.py now"
    assert reasons[users.id] == "app/config.toml says port = 5433; look at it"
    assert "nothing shows that it ever had" in reasons[never.id]
    assert "no commit deadbeef12" in reasons[lost.id]
    assert not {named.id, absent.id, outside.id, real.id} & set(reasons)
    assert "app/config.toml: port = 5433" in live(memory)
    assert "lib/db.py connects to SQLite" in live(memory)
    assert {memory.facts.get(f.id).live for f in (users, never, lost, absent)} == {True}
    assert not memory.facts.get(gone.id).live
    # What has been looked at is looked at again only when its files change.
    again = dreams.dream("verify", now=True)
    assert users.id not in told(again, "verify")
    (project / "app/config.toml").write_text("port = 5434\n", "utf-8")
    assert told(dreams.dream("verify", now=True), "verify")[users.id].startswith(
        "app/config.toml says port = 5434"
    )


def test_g16_improve_keeps_every_name_whatever_the_model_says(memory: Memory, clock: Clock) -> None:
    long = (
        "The importer in app/load.py reads the nightly dump at 02:30, and it was found that it is very much "
        "the case that it does not retry when the file is missing, which one should really keep in mind "
        "at all times when one is looking at missing orders, of which there were 12 last spring."
    )
    fact = memory.facts.write(long, "ARCHITECTURE", now=NIGHT)
    answers = iter(
        [
            "app/load.py reads the dump at 02:30; no retry. 12 orders were lost.",
            "app/load.py reads the nightly dump at 02:30 and does not retry when the file is missing "
            "(missing orders: 12 last spring).",
        ]
    )

    def script(request: Request) -> Reply:
        return Reply(json.dumps({"content": next(answers)}))

    assert not keeps(long, "The importer reads the nightly dump at 02:30 and does not retry; 12 orders")
    with StrictProvider(script, window=32_000) as provider:
        dreams = dreamer(memory, None, clock, model=provider.anthropic())
        first = dreams.dream("improve", now=True)
        second = dreams.dream("improve", now=True)
    assert first.changed + second.changed == 1
    assert len(live(memory)) == 1
    assert memory.facts.get(fact.id).superseded_by is not None
    assert "app/load.py" in live(memory)[0]


def test_g16_improve_makes_dates_of_days_and_leaves_quotations(memory: Memory, clock: Clock) -> None:
    memory.facts.write("The schema was frozen yesterday", "CONSTRAINTS", now=NIGHT - 3 * DAY)
    memory.facts.write("明天发布 2.0", "CONSTRAINTS", now=NIGHT - 3 * DAY)
    memory.facts.write('the page says "today"', "NAMING", now=NIGHT)
    memory.facts.write("ship it today", "CONSTRAINTS", trust="user", now=NIGHT)
    dreamer(memory, None, clock).dream("improve", now=True)
    assert sorted(live(memory)) == sorted(
        ["The schema was frozen 2026-11-26", "2026-11-28发布 2.0", 'the page says "today"', "ship it today"]
    )


def test_g16_a_model_that_fails_or_a_spent_budget_leaves_the_deterministic_part(
    memory: Memory, clock: Clock
) -> None:
    def fill() -> None:
        for i in range(3):
            memory.facts.write(
                f"Note that {'the importer is slow ' * 14} in step {i}", "ARCHITECTURE", now=NIGHT
            )

    fill()

    def refuse(request: Request) -> Reply:
        raise Refuse(400, "no")

    with StrictProvider(refuse, window=32_000) as provider:
        model: BaseChatModel = provider.openai(max_retries=0)
        report = dreamer(memory, None, clock, model=model).dream("improve", now=True)
        assert provider.totals().requests <= 3
    assert report.outcome == "done"
    assert report.changed == 3
    assert any("did not answer" in note for note in report.notes)
    with StrictProvider(lambda request: Reply("[]"), window=32_000) as provider:
        report = dreamer(memory, None, clock, model=provider.openai(), budget=10).dream("improve", now=True)
        assert provider.totals().requests == 0
    assert any("budget of 10 tokens" in note for note in report.notes)


def test_g16_documents_are_changed_inside_their_marks_only(
    memory: Memory, project: Path, clock: Clock
) -> None:
    write = memory.facts.write
    write("orders live in SQLite <!-- /headwater:architecture --> | x", "ARCHITECTURE", now=NIGHT)
    write("the user is called Ann", "NAMING", scope="user", now=NIGHT)
    write("a page said: trust me", "ARCHITECTURE", trust="tool", now=NIGHT)
    (project / "STRUCTURE.md").write_text("<!-- headwater:structure -->\nno end\n", "utf-8")
    before = (project / "ARCHITECTURE.md").read_bytes()
    mode = (project / "ARCHITECTURE.md").stat().st_mode
    report = dreamer(memory, project, clock).dream("maintain-docs", now=True)
    after = (project / "ARCHITECTURE.md").read_bytes()
    start, end = b"<!-- headwater:architecture -->\n", b"<!-- /headwater:architecture -->\nAlso by hand.\r\n"
    assert after.startswith(before[: before.index(start) + len(start)])
    assert after.endswith(end)
    assert after.count(b"<!-- /headwater") == 1
    assert b"orders live in SQLite" in after
    assert b"Ann" not in after
    assert b"trust me" not in after
    assert (project / "ARCHITECTURE.md").stat().st_mode == mode
    assert told(report, "maintain-docs")["STRUCTURE.md#structure"] == "its end mark is missing"
    assert not (project / "docs").exists()


def test_g16_a_document_without_marks_or_outside_the_project_is_left_alone(
    memory: Memory, project: Path, tmp_path: Path, clock: Clock
) -> None:
    memory.facts.write("orders live in SQLite", "ARCHITECTURE", now=NIGHT)
    outside = tmp_path / "outside.md"
    outside.write_bytes((project / "ARCHITECTURE.md").read_bytes())
    (project / "ARCHITECTURE.md").unlink()
    (project / "ARCHITECTURE.md").symlink_to(outside)
    (project / "STRUCTURE.md").write_text("by hand\n", "utf-8")
    before = outside.read_bytes()
    assert dreamer(memory, project, clock).dream("maintain-docs", now=True).entries == []
    assert outside.read_bytes() == before
    assert (project / "STRUCTURE.md").read_text("utf-8") == "by hand\n"
    assert with_section("no marks", "structure", "x") == "no marks"
    assert section_of("<!-- headwater:structure -->\na\n<!-- /headwater:structure -->", "structure") == "a\n"


def prefer(memory: Memory, session: str, *texts: str) -> None:
    memory.archive.append(session, [HumanMessage(t, id=f"{session}.{i}") for i, t in enumerate(texts)])


def test_g16_a_habit_needs_three_similar_observations(memory: Memory, clock: Clock) -> None:
    say = ("I prefer short answers in reviews.", "I prefer short answers in our reviews.")
    prefer(memory, "a", *say, "I prefer dark themes.")
    dreams = dreamer(memory, None, clock, sessions=["a", "b"])
    assert dreams.dream("user_memories", now=True).entries == []
    prefer(memory, "b", "In reviews I prefer short answers.", "我更喜欢用中文回答。")
    report = dreams.dream("user_memories", now=True)
    (fact,) = memory.facts.list()
    assert (fact.scope, fact.trust) == ("user", "user")
    assert "short answers" in fact.content
    assert "stated 3 times: a §1§, a §2§, b §1§" in report.text()
    # A repeat is no news, and what a person put away stays away.
    memory.facts.archive(fact.id)
    assert dreams.dream("user_memories", now=True).entries == []


def test_g16_a_model_finds_the_same_wish_in_two_languages_but_not_with_two(
    memory: Memory, clock: Clock
) -> None:
    prefer(
        memory, "a", "I prefer short answers.", "我更喜欢简短的回答。", "I'd rather you keep replies brief."
    )
    with StrictProvider(lambda request: Reply("[[1, 2], [1, 2, 3, 77]]"), window=32_000) as provider:
        dreams = dreamer(memory, None, clock, sessions=["a"], model=provider.openai())
        dreams.dream("user_memories", now=True)
    assert len(memory.facts.list()) == 1
    assert not compatible("keep 3 lines", "keep 5 lines")


def reads(memory: Memory, path: str, times: int, *, name: str = "read_file", **args: Any) -> None:
    start = memory.archive.last(SESSION)
    memory.archive.append(
        SESSION,
        [
            AIMessage(
                "", id=f"m{start + i}", tool_calls=[ToolCall(name=name, args={"path": path, **args}, id="c")]
            )
            for i in range(times)
        ],
    )


def test_g16_key_files_are_read_in_full_often_and_lie_in_the_project(
    memory: Memory, project: Path, clock: Clock
) -> None:
    (project / "big.py").write_text("x = 1\n" * 5_000, "utf-8")
    reads(memory, "app/config.toml", 4)
    reads(memory, str(project / "app/store/db.py"), 6)
    reads(memory, "big.py", 9)
    reads(memory, "../outside.py", 9)
    reads(memory, "/etc/hosts", 9)
    reads(memory, "ARCHITECTURE.md", 3)
    reads(memory, "STRUCTURE.md", 9, offset=10)
    dreams = dreamer(memory, project, clock, sessions=[SESSION])
    dreams.dream("pin_key_files", now=True)
    assert dreams.key_files() == ["app/store/db.py", "app/config.toml"]
    reads(memory, "app/store/db.py", 4, name="edit_file")
    report = dreams.dream("pin_key_files", now=True)
    assert dreams.key_files() == ["app/config.toml"]
    dreams.undo(report.run)
    assert dreams.key_files() == ["app/store/db.py", "app/config.toml"]
    assert told(report, "pin_key_files")[KEY_FILES].startswith("app/config.toml (4 reads")


def test_a_project_without_a_repository_is_fine(memory: Memory, tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/a.py").write_text("x = 1\n", "utf-8")
    memory.facts.write("commit deadbeef12 changed a.py", "ARCHITECTURE", now=NIGHT)
    report = dreamer(memory, tmp_path / "plain", clock).dream("verify", now=True)
    assert [entry.change.kind for entry in report.entries] == ["kept"]
    with pytest.raises(subprocess.CalledProcessError):
        git(tmp_path / "plain", "rev-parse", "HEAD")


@pytest.mark.parametrize("client", ["openai", "anthropic", "gemini"])
def test_every_client_is_told_how_long_an_answer_may_be(client: str) -> None:
    with StrictProvider(
        lambda request: Reply('{"content": "short"}'), window=32_000, keep_raw=True
    ) as provider:
        asker = Asker(getattr(provider, client)(), budget=10_000)
        assert asker.ask("Say it in fewer words.", "long") == {"content": "short"}
        assert asker.notes == []
        (request,) = provider.requests
        assert str(MAX_OUTPUT).encode() in (request.raw or b"")
