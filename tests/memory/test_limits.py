"""What models have taught: limits and scales on disk, for this process and the next."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.memory.limits import LIFETIME, Limits, Scales

KEY = "gpt-x@https://one.example/v1"


def test_g33_the_next_process_knows_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    assert Limits(path).learn(KEY, 65_536, 100.0) == 65_536
    assert Limits(path).get(KEY, 200.0) == 65_536
    assert Limits(path).get("gpt-x@elsewhere", 200.0) is None
    assert Limits(path).all() == {KEY: (65_536, 100.0)}


def test_g33_the_lower_limit_wins_until_it_is_a_week_old(tmp_path: Path) -> None:
    limits = Limits(tmp_path / "limits.json")
    limits.learn(KEY, 65_536, 0.0)
    assert limits.learn(KEY, 128_000, 10.0) == 65_536
    assert limits.learn(KEY, 32_000, 20.0) == 32_000
    assert limits.get(KEY, 20.0 + LIFETIME) == 32_000
    assert limits.get(KEY, 21.0 + LIFETIME) is None
    assert limits.learn(KEY, 128_000, 22.0 + LIFETIME) == 128_000


@pytest.mark.parametrize("number", [1_023, 10_000_001, 0, -5])
def test_g33_a_number_nobody_can_mean_is_not_learned(tmp_path: Path, number: int) -> None:
    limits = Limits(tmp_path / "limits.json")
    assert limits.learn(KEY, number, 0.0) is None
    assert not (tmp_path / "limits.json").exists()


def test_g33_two_processes_keep_each_others_lessons(tmp_path: Path) -> None:
    one, two = Limits(tmp_path / "limits.json"), Limits(tmp_path / "limits.json")
    one.learn("a@x", 8_192, 0.0)
    assert two.get("b@x", 0.0) is None
    one.learn("c@x", 4_096, 1.0)
    two.learn("b@x", 16_384, 2.0)
    assert set(Limits(tmp_path / "limits.json").all()) == {"a@x", "b@x", "c@x"}


def test_m17_the_next_process_starts_with_the_scale(tmp_path: Path) -> None:
    path = tmp_path / "scales.json"
    Scales(path).learn(KEY, 1.62, 100.0)
    assert Scales(path).get(KEY) == 1.62
    assert Scales(path).all() == {KEY: (1.62, 100.0)}


def test_m17_a_scale_that_has_hardly_moved_is_not_written_again(tmp_path: Path) -> None:
    scales = Scales(tmp_path / "scales.json")
    scales.learn(KEY, 1.5, 1.0)
    scales.learn(KEY, 1.51, 2.0)
    assert scales.all()[KEY] == (1.5, 1.0)
    scales.learn(KEY, 1.7, 3.0)
    assert scales.all()[KEY] == (1.7, 3.0)


@pytest.mark.parametrize("kind", [Limits, Scales])
@pytest.mark.parametrize(
    "text", ["", "no json", "[]", '{"a": 5}', '{"a": [1]}', '{"a": ["x", "y"]}', "\udcff"]
)
def test_case_28_a_file_that_cannot_be_read_costs_the_lesson_only(
    tmp_path: Path, kind: Callable[[Path], Limits | Scales], text: str
) -> None:
    path = tmp_path / "lessons.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert kind(path).all() == {}


def test_m17_a_scale_beyond_its_bounds_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "scales.json"
    path.write_text(json.dumps({"a": [50.0, 1.0], "b": [0.0, 1.0]}))
    assert Scales(path).get("a") is None
    assert Scales(path).get("b") is None
