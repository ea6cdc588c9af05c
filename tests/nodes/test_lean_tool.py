"""What a model is told of our tools: short, nothing injected, and the same by every client."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from headwater.nodes.background_children import background_tools
from headwater.nodes.context_tools import context_tools
from headwater.nodes.delegation import SubAgent, delegate_tool
from headwater.nodes.lean_tool import lean
from headwater.window.tokens import count_tools
from tests.nodes.bench import engine

ALLOWED = 480
"""Tokens of the six context tools: they stand in every request, also of a session that never needs them."""


def ours(tmp_path: Path) -> list[BaseTool]:
    made = engine(tmp_path)
    return [*context_tools(made), *background_tools(made), delegate_tool([SubAgent("a", "does", "do")])]


def arguments(tool: BaseTool) -> dict[str, Any]:
    parameters: dict[str, Any] = convert_to_openai_tool(tool)["function"]["parameters"]
    return parameters


def test_e2_the_context_tools_cost_little(tmp_path: Path) -> None:
    assert count_tools(context_tools(engine(tmp_path))) <= ALLOWED


def test_no_tool_tells_of_what_is_injected(tmp_path: Path) -> None:
    for tool in ours(tmp_path):
        said = json.dumps(convert_to_openai_tool(tool))
        assert not {"state", "config"} & set(arguments(tool)["properties"]), tool.name
        assert not [word for word in ('"default"', '"title"', "null", "  ") if word in said], said


def test_gemini_is_told_the_same_arguments(tmp_path: Path) -> None:
    """Its client reads the class behind a tool, not what the other clients read."""
    client = pytest.importorskip("langchain_google_genai._function_utils")
    for tool in ours(tmp_path):
        told = client.convert_to_genai_function_declarations([tool])
        (said,) = (told[0] if isinstance(told, list) else told).function_declarations
        assert set(said.parameters.properties) == set(arguments(tool)["properties"]), tool.name
        assert set(said.parameters.required or []) == set(arguments(tool).get("required", [])), tool.name


def test_arguments_are_still_checked_and_may_be_null(tmp_path: Path) -> None:
    made = engine(tmp_path)
    tools = {tool.name: tool for tool in context_tools(made)}
    path = made.memory.artifacts.put("one\ntwo")
    call = {"name": "file_read", "id": "x", "type": "tool_call"}
    read = tools["file_read"].invoke({**call, "args": {"path": path, "offset": "1", "char_offset": None}})
    assert read.content == "two"
    with pytest.raises(ValueError, match="offset"):
        tools["file_read"].invoke({**call, "args": {"path": path, "offset": "some"}})


def test_a_schema_keeps_what_it_says_of_an_argument() -> None:
    several = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "title": "A"}
    either = {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "which"}
    shown = lean({"type": "object", "title": "T", "properties": {"a": several, "b": either}})
    assert shown == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "string"}}, "b": either},
    }
