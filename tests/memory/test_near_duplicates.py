"""Near-duplicates collapse where facts are written; facts that differ in what counts do not."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.memory.fact import Category, Source
from headwater.memory.memory import Memory
from headwater.memory.purport import purport

# Each row: one fact, put in ten ways. The openers and endings below are not what makes them differ.
SAID = [
    [
        "The database port is 5432.",
        "database port: 5432",
        "The port of the database is 5432",
        "Our DB port is `5432`",
        "Please remember that the database port is 5432!",
        "The databse port is 5432",
        "5432 is the database port",
        "THE DATABASE PORT IS 5432",
        "database port = 5432",
        "In this project, the database port is 5432",
    ],
    [
        "Never commit directly to main.",
        "Do not commit directly to main",
        "Don't commit directly to `main`!",
        "Please never commit directly to main",
        "You must not commit directly to main",
        "We should never commit directly to main",
        "Committing directly to main is forbidden",
        "Note: never commit directly to main",
        "Remember: don’t commit directly to main",
        "never commits directly to main",
    ],
    [
        "PostgreSQL 15 is the main database",
        "The main database is PostgreSQL 15",
        "Our main database is postgresql 15",
        "The primary database is PostgreSQL 15.",
        "the main database: PostgreSQL 15",
        "Main DB is PostgreSQL 15",
        "Note that PostgreSQL 15 is the main database",
        "PostgreSQL 15 is our primary database!",
        "FYI the main database is “PostgreSQL 15”",
        "The main databases is PostgreSQL 15",
    ],
    [
        "Every service retries three times",
        "each service retries 3 times",
        "All services retry 3 times",
        "Every service must retry three times",
        "each service should retry 3 times.",
        "Please: every service retries 3 times",
        "Every service always retries three times",
        "Remember that each service retries three times",
        "Each service has to retry 3 times",
        "every service retries 3 times!",
    ],
    [
        "In production, the timeout is 30 seconds",
        "The timeout is 30 s in production",
        "the timeout is 30s in production",
        "The timeout is 30 secs in production.",
        "in production the timeout is 30 seconds",
        "In production the timeout is 30s",
        "Timeout is 30 sec in production",
        "Note: in production, the timeout is 30 s",
        "the TIMEOUT is 30 seconds in production",
        "In production our timeout is 30 s",
    ],
    [
        "主数据库是 PostgreSQL 15。",
        "PostgreSQL 15 是主数据库",
        "请记住：主数据库为 PostgreSQL 15",
        "我们的主数据库是PostgreSQL 15",
        "主数据库：PostgreSQL 15",
        "主数据库是ＰｏｓｔｇｒｅＳＱＬ　１５",
        "主数据库是「PostgreSQL 15」",
        "注意，主数据库是 postgresql 15",
        "目前主数据库是 PostgreSQL 15",
        "本项目的主数据库是 PostgreSQL 15！",
    ],
    [
        "禁止直接提交到 main 分支",
        "不要直接提交到 main 分支。",
        "请不要直接提交到main分支",
        "不得直接提交到 main 分支",
        "不能直接提交到「main」分支",
        "请注意：严禁直接提交到 main 分支！",
        "别直接提交到 main 分支",
        "切勿直接提交到 main 分支",
        "不允许直接提交到 main 分支",
        "我们不可以直接提交到 main 分支",
    ],
    [
        "变量名必须使用小写加下划线",
        "变量名一律用小写加下划线",
        "变量名应该采用小写加下划线。",
        "请记住，变量名使用小写加下划线",
        "我们的变量名统一使用小写加下划线",
        "变量名应当用小写加下划线",
        "变量名务必使用小写加下划线！",
        "变量名需要使用小写加下划线",
        "备注：变量名用小写加下划线",
        "本项目变量名采用小写加下划线",
    ],
    [
        "每周五晚上部署",
        "每个星期五晚上部署",
        "每星期五晚上部署。",
        "请记住：每周五晚上部署",
        "我们每周五晚上部署",
        "每个周五晚上部署！",
        "每礼拜五晚上部署",
        "每周五的晚上部署",
        "注意：每周五晚上部署",
        "必须每周五晚上部署",
    ],
    [
        "接口超时是 30 秒",
        "接口超时为30秒",
        "接口的超时是 30 秒钟",
        "接口超时：30 秒",
        "请记住接口超时是 30 秒",
        "接口超时是３０秒。",
        "我们的接口超时是 30 秒",
        "目前接口超时为 30 秒",
        "30 秒是接口超时",
        "注意：接口超时＝30 秒",
    ],
]
# Ten facts, each beside one that differs from it only in a number, an identifier or a negation.
APART = [
    ("The database port is 5432", "The database port is 5433"),
    ("Retry failed uploads 3 times", "Retry failed uploads 30 times"),
    ("The limit is set by max_retries", "The limit is set by max_retry"),
    ("Parse the header in src/app.py", "Parse the header in src/api.py"),
    ("Commit directly to main", "Never commit directly to main"),
    ("The cache is shared between workers", "The cache is not shared between workers"),
    ("接口超时是 30 秒", "接口超时是 30 分钟"),
    ("部署到 web-1 服务器", "部署到 web-2 服务器"),
    ("可以直接提交到 main 分支", "不可以直接提交到 main 分支"),
    ("重试三次后报警", "重试四次后报警"),
]
ALSO_APART = [
    ("service-a calls service-b", "service-b calls service-a"),
    ("On Linux use A, on Mac use B", "use A on Mac, use B on Linux"),
    ("dev = 80, prod = 443", "80 = prod, 443 = dev"),
    ("alice reports to bob", "bob reports to alice"),
    ("deploy on Friday", "deploy on Monday"),
    ("timeout > 30", "timeout < 30"),
    ("The port was 80", "The port is 80"),
    ("use C", "use C++"),
    ("use tabs", "use tabs in Makefiles"),
    ("call it userId", "call it userid"),
    ("logging is enabled", "logging is disabled"),
    ("v1.2", "v1.2.0"),
    ("use --force", "use --no-force"),
    ("the offset is -5", "the offset is 5"),
    ("部署前运行测试", "部署后运行测试"),
    ("开发用 A，生产用 B", "开发用 B，生产用 A"),
    ("周五部署", "周四部署"),
]


def test_e19_a_hundred_near_duplicates_in_two_languages_are_ten_facts(memory: Memory) -> None:
    assert sum(map(len, SAID)) == 100
    turn = [text for texts in zip(*SAID, strict=True) for text in texts]
    for text in turn:
        memory.facts.write(text, "CONFIG_VALUES")
    kept = memory.facts.list()
    assert {fact.content for fact in kept} == {row[0] for row in SAID}
    assert [fact.seen for fact in kept] == [10] * 10


def test_facts_that_differ_in_a_number_an_identifier_or_a_negation_stay_two(memory: Memory) -> None:
    for pair in APART:
        for text in pair:
            memory.facts.write(text, "CONFIG_VALUES")
    assert memory.facts.count() == 2 * len(APART)
    assert {fact.seen for fact in memory.facts.list()} == {1}


@pytest.mark.parametrize("pair", ALSO_APART, ids=" | ".join)
def test_what_changes_the_sense_makes_another_fact(pair: tuple[str, str]) -> None:
    assert purport(pair[0]) != purport(pair[1])


def test_no_two_of_all_these_facts_are_one() -> None:
    different = [row[0] for row in SAID] + [text for pair in ALSO_APART for text in pair]
    assert len({purport(text) for text in different}) == len(different)


@given(
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.sampled_from(["the limit is {}", "上限是 {} 个", "v{}.0"]),
)
def test_texts_with_other_numbers_have_other_purports(one: int, two: int, frame: str) -> None:
    assert (purport(frame.format(one)) == purport(frame.format(two))) == (one == two)


@given(st.text(max_size=60))
def test_any_text_has_a_purport_and_case_and_blanks_do_not_change_it(text: str) -> None:
    assert purport(text) == purport(f"  {text}\n")
    assert purport(text) or not text.strip()


@pytest.mark.parametrize("text", ["the", "是", "?!", "请记住", "==", "…"])
def test_a_text_of_fillers_only_stands_for_itself(text: str) -> None:
    others = ["the", "是", "?!", "请记住", "==", "…"]
    assert sum(purport(text) == purport(other) for other in others) == 1


def test_a_near_duplicate_keeps_the_first_words_source_and_trust(memory: Memory) -> None:
    first = memory.facts.write(
        "Never push to main", "PROJECT_RULES", trust="user", source=("s1", [4]), now=1.0
    )
    again = memory.facts.write(
        "Do not push to main!", "PROJECT_RULES", trust="tool", source=("s2", [9]), now=2.0
    )
    assert (again.id, again.content, again.seen) == (first.id, "Never push to main", 2)
    assert (again.trust, again.source, again.valid_from) == ("user", Source("s1", (4,)), 1.0)


def test_g22_the_same_words_in_another_category_are_another_fact(memory: Memory) -> None:
    ids = {memory.facts.write("The port is 5432", category).id for category in Category}
    assert len(ids) == 5


def test_a_near_duplicate_of_an_archived_fact_does_not_revive_it(memory: Memory) -> None:
    old = memory.facts.write("主数据库是 SQLite", "ARCHITECTURE")
    memory.facts.archive(old.id)
    assert memory.facts.write("SQLite 是主数据库。", "ARCHITECTURE").status == "archived"
    assert memory.facts.search("主数据库") == []


def test_superseded_facts_tell_since_when_what_holds(memory: Memory) -> None:
    ports = [(80, 10.0), (8080, 20.0), (443, 30.0)]
    ids: list[str] = []
    for port, since in ports:
        text = f"the gateway listens on {port}"
        made = (
            memory.facts.supersede(ids[-1], text, valid_from=since, now=99.0)
            if ids
            else memory.facts.write(text, "CONFIG_VALUES", valid_from=since, now=99.0)
        )
        ids.append(made.id)
    chain = [memory.facts.get(key) for key in ids]
    assert [fact.valid_from for fact in chain] == [10.0, 20.0, 30.0]
    assert [fact.created for fact in chain] == [99.0] * 3
    assert [fact.superseded_by for fact in chain] == [ids[1], ids[2], None]
    assert [fact.live for fact in chain] == [False, False, True]
    assert all(a.valid_from < b.valid_from for a, b in itertools.pairwise(chain))


def test_superseding_a_fact_by_other_words_for_it_rewords_it(memory: Memory) -> None:
    old = memory.facts.write("do not push to main", "PROJECT_RULES", now=1.0)
    new = memory.facts.supersede(old.id, "Never push to main.", now=2.0)
    assert (new.id, new.content, new.seen, new.status) == (old.id, "Never push to main.", 1, "active")
    assert memory.facts.count() == 1
