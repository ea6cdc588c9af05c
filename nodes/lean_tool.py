"""Tools whose definition says no more than a model must know: it stands in every request, and is paid for."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, cast

from langchain_core.tools import StructuredTool
from langchain_core.tools.base import ArgsSchema
from pydantic import BaseModel, PrivateAttr

Arguments = type[BaseModel]


class LeanTool(StructuredTool):
    """A tool of ours; arguments are checked as ever, only what a model is told of them is shorter."""

    _shown: Arguments | None = PrivateAttr(default=None)

    @property
    def tool_call_schema(self) -> ArgsSchema:
        """The arguments that a model gives."""
        # LangChain makes this class for this tool, and makes it anew when the tool changes.
        made = cast(Arguments, super().tool_call_schema)
        if made is not self._shown:
            _tell(made, lean(made.model_json_schema()))
            self._shown = made
        return made


def lean_tool(function: Callable[..., str], *, name: str = "", description: str = "") -> LeanTool:
    """A tool from a function: by its name, if none is given, and told of by its docstring."""
    said = description or " ".join((function.__doc__ or "").split())
    tool = LeanTool.from_function(function, name=name or function.__name__, description=said)
    assert isinstance(tool, LeanTool)
    # The client of Gemini asks this class, and would show the model what is injected, too.
    shown = cast(Arguments, tool.tool_call_schema)
    _tell(cast(Arguments, tool.args_schema), shown.model_json_schema())
    tool.handle_tool_error = True
    return tool


def lean(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of arguments without titles and defaults; what may be left out is not said to be null too.

    >>> lean({"properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}}})
    {'properties': {'n': {'type': 'integer'}}}
    """
    kept = {key: value for key, value in schema.items() if key not in ("title", "description")}
    arguments = schema.get("properties") or {}
    return kept | {"properties": {name: _argument(one) for name, one in arguments.items()}}


def _argument(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key not in ("title", "default")}
    several = [one for one in kept.get("anyOf", ()) if one != {"type": "null"}]
    return {**kept, **several[0]} if len(several) == 1 and kept.pop("anyOf") else kept


def _tell(arguments: Arguments, schema: dict[str, Any]) -> None:
    """Have a class that was made for one tool be told of by a schema."""
    told = staticmethod(lambda *_, **__: deepcopy(schema))
    arguments.model_json_schema = told  # type: ignore[method-assign]
