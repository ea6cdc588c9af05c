import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.window.cues import MAX_PINS, identifiers, language_of, pin_kind, pins_in, score
from headwater.window.prose import clip, prose_lines, sentences
from tests.growth import LINEAR, growth

PINS = [
    ("constraint", "You must not touch the schema."),
    ("constraint", "Never restart the database."),
    ("constraint", "Always run the tests first."),
    ("constraint", "Please do not use any cloud services."),
    ("constraint", "Don’t use MySQL."),
    ("constraint", "Use only the standard library."),
    ("constraint", "Only change files under src/."),
    ("constraint", "I don't want new dependencies."),
    ("constraint", "No new dependencies."),
    ("constraint", "- never commit secrets"),
    ("constraint", "return only JSON, never prose"),
    ("constraint", "from now on always use tabs"),
    ("constraint", "必须用 Python 3.11。"),
    ("constraint", "不要重启数据库。"),
    ("constraint", "禁止使用外部服务"),
    ("constraint", "只能用标准库"),
    ("constraint", "你不能改表结构"),
    ("constraint", "务必保留日志"),
    ("constraint", "别动 main 分支"),
    ("constraint", "请勿修改 config.yaml"),
    ("decision", "Let's go with plan B."),
    ("decision", "We decided to use SQLite."),
    ("decision", "Please switch to Postgres."),
    ("decision", "我们决定用方案B"),
    ("decision", "就用 SQLite 吧"),
    ("decision", "选B"),
    ("decision", "确认用第二种"),
    ("exclusion", "I already tried restarting, it didn't help."),
    ("exclusion", "DNS is ruled out."),
    ("exclusion", "The restart had no effect."),
    ("exclusion", "Plan A is rejected."),
    ("exclusion", "已排除网络问题"),
    ("exclusion", "重启试过了，无效"),
    ("preference", "I prefer tabs."),
    ("preference", "I like short answers."),
    ("preference", "我喜欢简洁的回答"),
    ("preference", "我偏好深色主题"),
    ("preference", "我习惯用 vim"),
]

NO_PINS = [
    "It never works.",
    "The service always fails at night.",
    "I don't know what happened.",
    "Don't worry about it.",
    "It doesn't start.",
    "I can't reproduce it",
    "Must I restart it?",
    "This must be a bug.",
    "It must have been the cache.",
    "What happened yesterday",
    "I would like you to fix the login page",
    'The log says "you must restart"',
    "the docs say `never use eval`",
    "Do NOT",
    "要不要重启？",
    "能不能看看这个",
    "服务不能启动",
    "还有别的办法吗",
    "特别慢",
    "区别在哪里",
    "不要紧",
    "请确认一下日志",
    "看一下选项卡",
    "这个参数无效的原因",
    "他没决定",
    "我不知道",
]


@pytest.mark.parametrize(("kind", "sentence"), PINS)
def test_e15_a_users_rule_decision_exclusion_or_preference_is_a_pin(kind: str, sentence: str) -> None:
    assert [found for found, _ in pins_in(sentence)] == [kind]


@pytest.mark.parametrize("sentence", NO_PINS)
def test_e15_a_report_a_question_or_a_quotation_is_no_pin(sentence: str) -> None:
    assert pins_in(sentence) == []


PASTED = [
    "```python\n# You must never call this\nraise ValueError('never')\n```",
    "~~~\nnever restart\n~~~",
    "2026-01-02 10:00:00 ERROR you must not retry\n2026-01-02 10:00:01 INFO always on",
    'Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: you must not pass None',
    "> Never deploy on Friday.",
    "<file name='README.md'>\nAlways use tabs.\nNever use spaces.\n</file>",
    "def f(x):\n    # never call twice\n    return x;\n",
    "    Never do this in indented code",
    "src/a.py:65:5: F841 must never be assigned",
    "270:    # The check must be first",
    "| rule | you must not |",
]


@pytest.mark.parametrize("text", PASTED)
def test_e15_pasted_code_and_logs_give_no_pins(text: str) -> None:
    assert pins_in(text) == []
    around = pins_in(f"Here it is.\n\n{text}\n\nNever touch production.\n")
    assert around == [("constraint", "Never touch production.")]


def test_e15_pins_are_verbatim_in_order_each_once_and_bounded() -> None:
    text = "\n".join(f"Never touch table number {i}." for i in range(40)) + "\nNever touch table number 0."
    pins = pins_in(text)
    assert len(pins) == MAX_PINS
    assert [text for _, text in pins] == [
        f"Never touch table number {i}." for i in (*range(6), *range(34, 40))
    ]


def test_e15_a_document_in_one_sentence_is_no_pin() -> None:
    assert pin_kind("You must " + "really " * 59 + "go") is None
    assert pin_kind("不要" + "改" * 119) is None
    assert pin_kind("You must " + "really " * 50 + "go") == "constraint"


def test_a_statement_after_a_huge_paste_is_still_found() -> None:
    assert pins_in("x = 1;\n" * 100_000 + "\n\nNever touch production.")[-1][1] == "Never touch production."


def test_sentences_of_both_languages() -> None:
    assert sentences(
        "# Title\n- Use v1.2.3, e.g. here. Then stop! Why?\n1. 先看日志。再改代码；不要重启！好"
    ) == [
        "Title",
        "Use v1.2.3, e.g. here.",
        "Then stop!",
        "Why?",
        "先看日志。",
        "再改代码；",
        "不要重启！",
        "好",
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Fix src/app/main.py and ./run.sh.", ["src/app/main.py", "./run.sh"]),
        ("at 10.0.0.5:8080, localhost:6379, port 5432", ["10.0.0.5:8080", "localhost:6379", "5432"]),
        ("version 1.2.3-rc1 or v2", ["1.2.3-rc1", "v2"]),
        ("commit 3f2a9bc, see https://x.io/a?b=1.", ["3f2a9bc", "https://x.io/a?b=1"]),
        (
            "MAX_RETRIES config.max_size parseThing MyClass",
            ["MAX_RETRIES", "config.max_size", "parseThing", "MyClass"],
        ),
        ("JIRA-123 #45 30s 200 MB 95%", ["JIRA-123", "#45", "30s", "200 MB", "95%"]),
        (
            '"blue whale" `foo bar` C:\\a\\b.txt --no-cache a@b.co',
            ["blue whale", "foo bar", "C:\\a\\b.txt", "--no-cache", "a@b.co"],
        ),
        ("go with plan B, gpt-4o", ["plan B", "gpt-4o"]),
        ("修改src/app.py文件，端口5432，版本v2.1，限30秒", ["src/app.py", "5432", "v2.1", "30秒"]),
        ("用《设计文档》和“蓝鲸”方案B，提交abc1234", ["设计文档", "蓝鲸", "方案B", "abc1234"]),
        ("this and/or that, e.g. here it is", []),
        ("它没有名字。", []),
    ],
)
def test_identifiers(text: str, names: list[str]) -> None:
    assert identifiers(text) == names


def test_e11_conclusions_outweigh_process_and_greetings() -> None:
    for good in (
        "The user confirmed plan B.",
        "Restart tried, no effect: the root cause is a lock.",
        "重启试过，无效。",
    ):
        for bad in ("Sure, let me look at the file now.", "Thank you!", "好的，谢谢！", "让我先看看日志"):
            assert score(good) > 0 > score(bad)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Please fix the parser.", "en"),
        ("请修复解析器。", "zh"),
        ("请用 langgraph 的 StateGraph 构建 agent，参考 src/graph/build.py", "zh"),
        ("The user said “你好” and left, then we fixed the build and went on.", "en"),
        ("看下面\n```python\nfor each in the_list:\n    print(each, end='')\n```\n为什么慢", "zh"),
        ("パーサーを直してください", "ja"),
        ("파서를 고쳐 주세요", "ko"),
        ("1234 !!", "und"),
        ("", "und"),
    ],
)
def test_language_of_prose_and_not_of_code(text: str, language: str) -> None:
    assert language_of(text) == language


def test_clip_ends_at_a_sentence_where_it_can() -> None:
    def words(text: str) -> int:
        return len(text.split())

    assert clip("One two. Three four. Five six.", 5, words) == "One two. Three four."
    assert clip("one two three four", 2, words) == "one two"
    assert clip("short", 5, words) == "short"
    assert clip("short", 0, words) == ""


@given(st.text(max_size=300))
def test_nothing_is_invented(text: str) -> None:
    assert all(name in text for name in identifiers(text))
    assert all(sentence in text for sentence in sentences(text))
    assert all(sentence in text for _, sentence in pins_in(text))
    assert all(line in text for line in prose_lines(text))


@pytest.mark.parametrize(
    "text",
    [
        "a" * 10**6,
        "aA" * 300_000,
        "a-" * 300_000,
        ". " * 300_000,
        "1,1." * 200_000,
        "<a>\n" * 200_000,
        '"' * 10**6,
    ],
)
def test_hostile_text_costs_linear_time(text: str) -> None:
    def read(part: str) -> None:
        pins_in(part)
        identifiers(part[: len(part) // 5])
        language_of(part)

    assert growth(read, text[: len(text) // 8], text, runs=2) < 8 * LINEAR
