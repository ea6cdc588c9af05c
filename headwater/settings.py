"""Settings from a project's file and the user's environment, checked; nothing is read unless it is asked for.

`build_agent` and every other call of the library take what they are given and read no file. Only the command
line, and who calls `Settings.load`, reads one. A project's file comes with the project, perhaps from a
stranger: it may make a run smaller, never dearer, and never chooses where requests go.
"""

import difflib
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from headwater.nodes.budget import Budget
from headwater.window.policy import WindowPolicy
from headwater.window.prices import Prices
from headwater.window.sizes import window_of

SECTIONS: Mapping[str, type[Any]] = {"policy": WindowPolicy, "prices": Prices, "budget": Budget}
"""Table of the file, and what it makes; each is named as the argument of `build_agent` it is for."""
FILES = ("headwater.toml", "pyproject.toml")
PREFIX = "HEADWATER_"
MEMORY = ".headwater"

LOWER = frozenset({"policy.window", "policy.governance", *(f"budget.{f.name}" for f in fields(Budget))})
"""What a project's file may only lower: each is a bound on what a run spends."""
HIGHER = frozenset({"prices.read", "prices.write", "prices.output", "prices.unit"})
"""What it may only raise: at lower prices `Budget.cost` would buy more."""
USERS = frozenset({"model", "summarizer", "provider", "embeddings", "base_url", "endpoint", "url", "api_key"})
"""What it may not name at all: where requests go, and with which key."""

# Other names under which a setting is known, in the environment.
_ALIASES = {"window": "policy.window"}
# How like a known name a misspelt one is.
_CLOSE, _VERY_CLOSE = 0.6, 0.8
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


class SettingsError(ValueError):
    """A setting that cannot be kept; says where it stands, its key and value, and what to do."""


@dataclass(frozen=True)
class Settings:
    """What a project and its user have set, ready for `build_agent`.

    Attributes:
        policy: When to act on the window.
        prices: The provider's prices.
        budget: What one round may use.
        memory: The memory folder.
        sources: For each key ("policy.window", "memory") where its value is from: "default", the name of a
            file, or the name of an environment variable.
    """

    policy: WindowPolicy
    prices: Prices
    budget: Budget
    memory: Path
    sources: Mapping[str, str]

    @classmethod
    def load(
        cls, folder: str | Path = ".", env: Mapping[str, str] | None = None, *, model: str | None = ""
    ) -> "Settings":
        """Read `headwater.toml`, or `[tool.headwater]` of `pyproject.toml`, and `HEADWATER_*`.

        The environment is the user's and may set everything; where it and the file set the same key, it wins,
        but for what the file may lower. Folders above are not looked into.

        Args:
            folder: The project's.
            env: The environment; None takes the process's.
            model: "provider:name"; its window is what a file may lower where the environment sets none.
                Without a name that is 128,000 tokens. None: no model is run, and no bound is judged.

        Raises:
            SettingsError: A file cannot be read, or a value cannot be kept.
        """
        folder = Path(folder)
        values, sources = _read(folder, env, model)
        made = {name: _made(name, values, sources) for name in SECTIONS}
        return cls(**made, memory=_folder(folder, values), sources=MappingProxyType(sources))

    def value(self, key: str) -> Any:
        """The value of a key of `sources`."""
        section, _, name = key.rpartition(".")
        return getattr(getattr(self, section) if section else self, name)


def memory_of(folder: str | Path = ".", env: Mapping[str, str] | None = None) -> Path:
    """The memory folder that `Settings.load` finds, for what runs no model: no bound is judged by a window.

    Raises:
        SettingsError: A file cannot be read, or a value cannot be kept.
    """
    values, _ = _read(Path(folder), env, None)
    return _folder(Path(folder), values)


def variable(key: str) -> str:
    """The environment variable of a key: "budget.steps" is HEADWATER_BUDGET_STEPS."""
    return PREFIX + key.replace(".", "_").upper()


def _read(
    folder: Path, env: Mapping[str, str] | None, model: str | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Every value and its source; without a `model` nothing is to be spent, and no bound is held."""
    values, sources = _defaults()
    for key, value, name in _from_environment(os.environ if env is None else env):
        values[key], sources[key] = value, name
    for key, value, file in _from_file(folder):
        if model is not None:
            _refuse_more(file, key, value, values[key], sources[key], model)
        if key == "memory":
            _refuse_outside(folder, file, value)
        if sources[key] == "default" or key in LOWER:
            values[key], sources[key] = value, file
    return values, sources


def _folder(folder: Path, values: Mapping[str, Any]) -> Path:
    return folder.joinpath(os.path.expanduser(values["memory"]))


def _defaults() -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {"memory": MEMORY}
    for section, made in SECTIONS.items():
        values |= {f"{section}.{field.name}": field.default for field in fields(made)}
    return values, dict.fromkeys(values, "default")


def _types() -> dict[str, Any]:
    types: dict[str, Any] = {"memory": str}
    for section, made in SECTIONS.items():
        types |= {f"{section}.{name}": kind for name, kind in get_type_hints(made).items()}
    return types


def _from_environment(env: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Key, value and variable; an empty variable counts as not set."""
    types = _types()
    seen: dict[str, Any] = {}
    names = {variable(key): key for key in types} | {PREFIX + a.upper(): key for a, key in _ALIASES.items()}
    for name in sorted(name for name in env if name.startswith(PREFIX) and env[name].strip()):
        key = names.get(name)
        if key is None:
            # Programs have variables of their own (HEADWATER_MODEL); only what looks like ours is refused.
            ours = name.removeprefix(PREFIX).partition("_")[0].lower() in SECTIONS
            near = _near(name, names, _CLOSE if ours else _VERY_CLOSE)
            if ours or near:
                # Its value may be a secret of another program, so it is not shown.
                raise SettingsError(f"environment: {name} is no setting{near}")
            continue
        value = _checked(f"environment: {name}", key, env[name].strip(), types[key], strict=False)
        if key in seen and value != seen[key]:
            raise SettingsError(
                f"environment: {name}={env[name]!r} and another variable set {key!r} to different values; "
                "unset one"
            )
        seen[key] = value
        yield key, value, name


def _from_file(folder: Path) -> Iterator[tuple[str, Any, str]]:
    """Key, value and name of the file."""
    found = {name: table for name in FILES if (table := _table(folder / name)) is not None}
    if len(found) > 1:
        raise SettingsError(
            f"{' and '.join(found)} in {str(folder)!r} both hold settings; keep them in one of the two"
        )
    types = _types()
    for file, table in found.items():
        for key, value in _flat(file, table):
            name = key.rpartition(".")[2].lower().replace("-", "_")
            if name in USERS:
                shown = "..." if name == "api_key" else repr(value)
                raise SettingsError(
                    f"{file}: {key} = {shown} is not a project's to choose: models and endpoints are the "
                    "user's, given in code or environment; take the line out"
                )
            if key not in types:
                raise SettingsError(f"{file}: {key} = {value!r} is no setting{_near(key, types)}")
            yield key, _checked(f"{file}: {key}", key, value, types[key], strict=True), file


def _table(path: Path) -> Mapping[str, Any] | None:
    if not path.is_file():
        return None
    try:
        found: Any = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(
            f"{path.name}: cannot be read as TOML: {error}; mend it or take it away"
        ) from error
    for name in ("tool", "headwater") if path.name == "pyproject.toml" else ():
        found = found.get(name) if isinstance(found, dict) else None
        if found is None:
            return None
    if not isinstance(found, dict):
        raise SettingsError(f"{path.name}: tool.headwater = {found!r} is no table; write [tool.headwater]")
    return found


def _flat(file: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if name not in SECTIONS:
            yield name, value
        elif isinstance(value, dict):
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        else:
            raise SettingsError(f"{file}: {name} = {value!r} is no table; write its keys below [{name}]")


def _checked(where: str, key: str, value: Any, kind: Any, *, strict: bool) -> Any:
    """The value as its field has it; from the environment it comes as text."""
    kinds = [one for one in get_args(kind) if one is not NoneType]
    optional = get_origin(kind) is not Literal and NoneType in get_args(kind)
    if optional:
        kind = kinds[0]
        if isinstance(value, str) and value.lower() == "none":
            return None
    given = value
    if not strict and kind in (int, float):
        given = value.replace("_", "").replace(",", "")
    try:
        found = TypeAdapter(kind).validate_python(given, strict=strict)
    except ValidationError:
        found = None
    sound = found is not None and (key != "memory" or "\0" not in found)
    if isinstance(found, float):
        # Only a budget may be without bound.
        sound = not math.isnan(found) and (math.isfinite(found) or key.startswith("budget."))
    if not sound or (isinstance(found, int | float) and found < 0):
        says = _KINDS.get(kind) or f"one of {', '.join(map(repr, kinds))}"
        says += ", 0 or more" if kind in (int, float) else ""
        raise SettingsError(f"{where} = {value!r} cannot be kept; give {says}{' or none' * optional}")
    return found


def _refuse_more(file: str, key: str, value: Any, bound: Any, source: str, model: str) -> None:
    if key == "policy.window" and bound is None:
        size = window_of(model)
        bound, source = size.tokens, f"window of {model or 'an unnamed model'}"
    if key in LOWER and _amount(value) > _amount(bound):
        way = "lower"
    elif key in HIGHER and value < bound:
        way = "raise"
    else:
        return
    raise SettingsError(
        f"{file}: {key} = {value!r} would raise spending; a project may only {way} it against {bound!r} "
        f"({source}). Change the line, or set {variable(key)} yourself"
    )


def _amount(value: float | None) -> float:
    return math.inf if value is None else value


def _refuse_outside(folder: Path, file: str, value: str) -> None:
    """A memory folder of a project's file lies inside the project, also once links are followed."""
    root = folder.resolve()
    try:
        found = (folder / value).resolve()
    except (OSError, RuntimeError):
        # Links that lead in a circle.
        inside = False
    else:
        # From Python 3.13 on such a circle is no error: a link is left in what should have none.
        inside = root in found.parents and not any(part.is_symlink() for part in (found, *found.parents))
    if not inside or value.startswith("~"):
        raise SettingsError(
            f"{file}: memory = {value!r} is no folder inside the project; name one, such as {MEMORY!r}, or "
            f"set {variable('memory')} yourself"
        )


def _made(section: str, values: Mapping[str, Any], sources: Mapping[str, str]) -> Any:
    keys = [key for key in values if key.startswith(f"{section}.")]
    try:
        return SECTIONS[section](**{key.partition(".")[2]: values[key] for key in keys})
    except ValueError as error:
        who = ", ".join(sorted({f"{sources[key]} ({key})" for key in keys if sources[key] != "default"}))
        raise SettingsError(f"{who}: {error}") from error


def _near(name: str, known: Mapping[str, Any], cutoff: float = _CLOSE) -> str:
    """What to do about a name that is not known; "" where nothing is near enough and `cutoff` is high."""
    # A key is looked for by its own name: it may stand in the wrong table.
    bare = {one.removeprefix(PREFIX).rpartition(".")[2]: one for one in known}
    near = difflib.get_close_matches(name.removeprefix(PREFIX).rpartition(".")[2], bare, n=1, cutoff=cutoff)
    if near:
        return f"; did you mean {bare[near[0]]!r}?"
    return "" if cutoff > _CLOSE else "; docs/configuration.md lists all"
