"""Settings: what a file may say, what the environment may, and what is said of a mistake."""

import json
import math
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import Budget, Prices, WindowPolicy
from headwater.cli import main
from headwater.cli_kit import MISUSED, OK
from headwater.settings import HIGHER, LOWER, SECTIONS, USERS, Settings, SettingsError, variable
from headwater.settings_page import page

ROOT = Path(__file__).parents[1]


def write(folder: Path, text: str, name: str = "headwater.toml") -> Path:
    (folder / name).write_text(text, "utf-8")
    return folder


def refusal(folder: Path, env: dict[str, str] | None = None, model: str = "") -> str:
    with pytest.raises(SettingsError) as caught:
        Settings.load(folder, env or {}, model=model)
    return str(caught.value)


def test_without_file_and_environment_all_is_default(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path, {"PATH": "/bin"})
    assert (settings.policy, settings.prices, settings.budget) == (WindowPolicy(), Prices(), Budget())
    assert settings.memory == tmp_path / ".headwater"
    assert set(settings.sources.values()) == {"default"}
    assert set(settings.sources) == {
        "memory",
        *(f"{section}.{field.name}" for section, made in SECTIONS.items() for field in fields(made)),
    }


@pytest.mark.parametrize(("name", "prefix"), [("headwater.toml", ""), ("pyproject.toml", "tool.headwater.")])
def test_both_files_are_read_the_same(tmp_path: Path, name: str, prefix: str) -> None:
    top = "[tool.headwater]\n" if prefix else ""
    text = (
        f'{top}memory = "记忆"\n[{prefix}policy]\nwindow = 64_000\nkeep_messages = 8\nsummarise = "cold"\n'
        f"background = false\n[{prefix}prices]\nttl = 3600\n[{prefix}budget]\nsteps = 20\n"
    )
    settings = Settings.load(write(tmp_path, text, name), {})
    assert settings.policy == WindowPolicy(window=64_000, keep_messages=8, summarise="cold", background=False)
    assert (settings.prices, settings.budget) == (Prices(ttl=3600), Budget(steps=20))
    assert settings.memory == tmp_path / "记忆"
    assert settings.sources["policy.window"] == name
    assert settings.sources["policy.facts"] == "default"


def test_another_tools_pyproject_says_nothing(tmp_path: Path) -> None:
    write(tmp_path, "[tool.ruff]\nline-length = 110\n", "pyproject.toml")
    assert Settings.load(tmp_path, {}).policy == WindowPolicy()
    write(tmp_path, "[budget]\nsteps = 3\n")
    assert Settings.load(tmp_path, {}).budget.steps == 3
    write(tmp_path, "[tool.headwater]\n", "pyproject.toml")
    assert "in one of the two" in refusal(tmp_path)


def test_the_environment_may_set_everything(tmp_path: Path) -> None:
    env = {
        "HEADWATER_WINDOW": "1_000_000",
        "HEADWATER_POLICY_GOVERNANCE": "none",
        "HEADWATER_POLICY_BACKGROUND": "no",
        "HEADWATER_POLICY_PROVIDER": "vllm",
        "HEADWATER_PRICES_UNIT": "0.2",
        "HEADWATER_BUDGET_STEPS": "inf",
        "HEADWATER_BUDGET_TOKENS": "9,000,000",
        "HEADWATER_BUDGET_DEPTH": "",
        "HEADWATER_MEMORY": str(tmp_path.parent / "elsewhere"),
        "HEADWATER_MODEL": "openai:gpt-4.1",
    }
    settings = Settings.load(tmp_path, env)
    assert settings.policy == WindowPolicy(1_000_000, governance=None, background=False, provider="vllm")
    assert settings.prices == Prices(unit=0.2)
    assert settings.budget == Budget(steps=math.inf, tokens=9_000_000)
    assert settings.memory == tmp_path.parent / "elsewhere"
    assert settings.sources["policy.window"] == "HEADWATER_WINDOW"
    assert settings.sources["budget.depth"] == "default"


def test_the_environment_wins_but_for_what_a_file_lowers(tmp_path: Path) -> None:
    write(tmp_path, "[policy]\nkeep_messages = 8\n[budget]\nsteps = 50\n")
    env = {"HEADWATER_POLICY_KEEP_MESSAGES": "9", "HEADWATER_BUDGET_STEPS": "60"}
    settings = Settings.load(tmp_path, env)
    assert (settings.policy.keep_messages, settings.budget.steps) == (9, 50)
    assert settings.sources["policy.keep_messages"] == "HEADWATER_POLICY_KEEP_MESSAGES"
    assert settings.sources["budget.steps"] == "headwater.toml"


@pytest.mark.parametrize("key", sorted(LOWER | HIGHER))
def test_a_file_cannot_raise_spending(tmp_path: Path, key: str) -> None:
    section, _, name = key.partition(".")
    default = getattr(SECTIONS[section](), name)
    env = {variable(key): "7000"} if default in (None, math.inf) else {}
    bound = 7000 if env else default
    more = bound + 1 if key in LOWER else bound / 2
    said = refusal(write(tmp_path, f"[{section}]\n{name} = {more}\n"), env)
    for part in ("headwater.toml", key, str(more), str(bound), variable(key), next(iter(env), "default")):
        assert part in said
    less = bound - 1 if key in LOWER else bound * 1.1
    settings = Settings.load(write(tmp_path, f"[{section}]\n{name} = {less}\n"), env)
    assert settings.value(key) == less


@given(
    st.dictionaries(
        st.sampled_from(sorted(LOWER)), st.integers(1_024, 3_000_000) | st.floats(1_024, math.inf)
    ),
    st.dictionaries(st.sampled_from(sorted(LOWER)), st.integers(1_024, 3_000_000)),
)
def test_whatever_a_file_says_no_bound_rises(
    tmp_path_factory: pytest.TempPathFactory, said: dict[str, float], env: dict[str, int]
) -> None:
    folder = tmp_path_factory.mktemp("project")
    variables = {variable(key): str(value) for key, value in env.items()}
    without = Settings.load(folder, variables)
    lines = "".join(f"{key} = {value}\n" for key, value in said.items())
    try:
        found = Settings.load(write(folder, lines), variables)
    except SettingsError as error:
        refused = str(error)
    else:
        found_bounds = [(found.value(key), without.value(key) or 128_000) for key in LOWER]
        assert all((value or bound) <= bound for value, bound in found_bounds)
        return
    assert any(key in refused for key in said)


def test_the_window_is_bounded_by_the_models_own(tmp_path: Path) -> None:
    write(tmp_path, "[policy]\nwindow = 200_000\n")
    assert "128000 (window of an unnamed model)" in refusal(tmp_path)
    assert Settings.load(tmp_path, {}, model="openai:gpt-4.1").policy.window == 200_000
    assert Settings.load(tmp_path, {"HEADWATER_WINDOW": "300000"}).policy.window == 200_000
    assert "(HEADWATER_WINDOW)" in refusal(tmp_path, {"HEADWATER_WINDOW": "100000"}, "openai:gpt-4.1")


@pytest.mark.parametrize("where", ["", "[policy]\n", "[budget]\n"])
@pytest.mark.parametrize("name", [*sorted(USERS), "base-url", "Model"])
def test_a_file_names_no_model_and_no_endpoint(tmp_path: Path, where: str, name: str) -> None:
    said = refusal(write(tmp_path, f'{where}{name} = "sk-or-a-relay"\n'))
    assert "headwater.toml" in said
    assert name in said
    assert "not a project's to choose" in said
    assert ("sk-or-a-relay" in said) is (name != "api_key")


@pytest.mark.parametrize("path", ["../out", "/tmp", "~/x", "~", ".", "", "a/../..", "link/x", "loop/x"])
def test_memory_of_a_file_stays_inside_the_project(tmp_path: Path, path: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path.parent)
    (tmp_path / "loop").symlink_to("loop")
    said = refusal(write(tmp_path, f"memory = {json.dumps(path)}\n"))
    assert f"memory = {path!r}" in said
    assert "HEADWATER_MEMORY" in said


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[policy]\nwindow = '64k'\n", ["policy.window = '64k'", "a whole number"]),
        ("[policy]\nwindow = true\n", ["policy.window = True"]),
        ("[policy]\nfacts = -1\n", ["policy.facts = -1", "0 or more"]),
        ("[policy]\nhistory = nan\n", ["policy.history = nan"]),
        ("[policy]\nsummarise = 'always'\n", ["'line', 'cold', 'never'"]),
        ("[policy]\nbackground = 'no'\n", ["true or false"]),
        ("[policy]\noffload = 0.9\n", ["headwater.toml (policy.offload)", "0 < offload < compact"]),
        ("[policy]\nwindow = 5\n", ["below 1,024"]),
        ("[policy]\nwindwo = 5\n", ["policy.windwo = 5", "did you mean 'policy.window'"]),
        ("window = 64_000\n", ["did you mean 'policy.window'"]),
        ("[policy]\nzzzzzz = 5\n", ["docs/configuration.md"]),
        ("[policy.window]\nsize = 3\n", ["policy.window = {'size': 3}"]),
        ("policy = 3\n", ["below [policy]"]),
        ("memory = 3\n", ["memory = 3", "a text"]),
        ('memory = "a\\u0000b"\n', ["cannot be kept"]),
        ("[prices]\nunit = inf\n", ["prices.unit = inf"]),
        ("[budget]\nsteps = 0\n", ["headwater.toml (budget.steps)", "at least one step"]),
        (f"[budget]\nsteps = 1{'0' * 400}\n", ["budget.steps"]),
        (f"[policy]\nwindow = 1{'0' * 400}\n", ["would raise spending"]),
        ("[policy\n", ["cannot be read as TOML", "line 1"]),
        (f"a = {'[' * 5_000}\n", ["cannot be read as TOML"]),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(tmp_path: Path, text: str, parts: list[str]) -> None:
    said = refusal(write(tmp_path, text))
    assert all(part in said for part in ["headwater.toml", *parts]), said


def test_a_file_that_is_no_text_or_no_table(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_bytes(b"\xff\xfe")
    assert "cannot be read" in refusal(tmp_path)
    (tmp_path / "headwater.toml").unlink()
    write(tmp_path, "tool = 3\n", "pyproject.toml")
    assert Settings.load(tmp_path, {}).budget == Budget()
    write(tmp_path, "[tool]\nheadwater = 3\n", "pyproject.toml")
    assert "[tool.headwater]" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ({"HEADWATER_BUDGET_STEP": "3"}, ["HEADWATER_BUDGET_STEP ", "HEADWATER_BUDGET_STEPS"]),
        ({"HEADWATER_MEMROY": "x"}, ["HEADWATER_MEMROY", "did you mean 'HEADWATER_MEMORY'"]),
        ({"HEADWATER_BUDGET_STEPS": "many"}, ["HEADWATER_BUDGET_STEPS = 'many'", "a number"]),
        ({"HEADWATER_BUDGET_STEPS": "0"}, ["HEADWATER_BUDGET_STEPS (budget.steps)"]),
        ({"HEADWATER_WINDOW": "9000", "HEADWATER_POLICY_WINDOW": "8000"}, ["'policy.window'", "unset one"]),
        ({"HEADWATER_POLICY_FACTS": "none"}, ["HEADWATER_POLICY_FACTS = 'none'"]),
    ],
)
def test_a_mistake_in_the_environment_is_named(tmp_path: Path, env: dict[str, str], parts: list[str]) -> None:
    said = refusal(tmp_path, env)
    assert all(part in said for part in parts), said


def test_the_library_reads_no_file_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from langchain_core.language_models import FakeListChatModel

    from headwater import build_agent

    monkeypatch.chdir(write(tmp_path, "[policy\n"))
    monkeypatch.setenv("HEADWATER_BUDGET_STEPS", "many")
    build_agent(FakeListChatModel(responses=["-"]), memory=tmp_path / "memory", context_tools=False)
    with pytest.raises(SettingsError):
        Settings.load()


def test_doctor_shows_what_is_set_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--no-request"]) == OK
    assert "Settings: all default" in capsys.readouterr().out
    write(tmp_path, 'memory = "notes"\n[policy]\nwindow = 64_000\n')
    monkeypatch.setenv("HEADWATER_BUDGET_STEPS", "60")
    assert main(["doctor", "--no-request", "--lang", "zh"]) == OK
    shown = capsys.readouterr().out
    assert "64,000" in shown
    assert "notes" in shown
    assert "policy.window = 64000 (headwater.toml), budget.steps = 60.0 (HEADWATER_BUDGET_STEPS)" in shown
    assert main(["doctor", "--no-request", "--json"]) == OK
    found = {f["name"]: f for f in json.loads(capsys.readouterr().out)["findings"]}["settings"]
    assert found["data"]["policy.facts"] == {"value": 4_000, "source": "default"}
    write(tmp_path, "[policy]\nwindow = 200_000\n")  # more than an unnamed model has; none is named or run
    assert main(["doctor", "--no-request"]) == OK
    assert "policy.window = 200000 (headwater.toml)" in capsys.readouterr().out
    assert main(["doctor", "--no-request", "--model", "openai:gpt-4"]) == MISUSED
    assert "policy.window" in capsys.readouterr().err
    write(tmp_path, '[policy]\nmodel = "x:y"\n')
    assert main(["doctor", "--no-request"]) == MISUSED
    told = capsys.readouterr().err
    assert told.startswith("headwater: headwater.toml: policy.model = 'x:y'")
    assert "Traceback" not in told


def test_the_page_is_up_to_date_and_lists_every_key() -> None:
    text = (ROOT / "docs/configuration.md").read_text("utf-8")
    assert text == page(), "run: python -m headwater.settings_page docs/configuration.md"
    assert [key for key in Settings.load(ROOT, {}).sources if f"`{key}`" not in text] == []
