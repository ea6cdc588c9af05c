"""A JSON file that ends in the middle: what is complete in it, as files of their own."""

import json
import re
from collections.abc import Iterator
from typing import Any

from headwater.lab.document import Document, text_in
from headwater.lab.message_rows import is_message, role_of

# Strings in one piece, the last one perhaps unended, so that a bracket in a text is none.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{},]', re.DOTALL)
_CLOSED_BY = {"[": "]", "{": "}"}
_OF_A_TURN = ("parts", "message", "response")


def beginnings(document: Document) -> Iterator[Document]:
    """The file closed behind the last complete part of each list and object that it leaves open.

    Outermost first. A message that is not complete, or a request without its answer, is in none.
    """
    text = text_in(document.path).strip("\ufeff \t\r\n\x00")
    if not document.error or text[:1] not in _CLOSED_BY:
        return
    closing = ""
    for start, end in _left_open(text):
        closing = _CLOSED_BY[text[start]] + closing
        try:
            if text[start] == "{" and _is_said(json.loads(text[start : end or start + 1] + "}"), start == 0):
                return
            if end:
                yield Document(document.path, json.loads(text[:end] + closing))
            if text[start] == "[" and end and _is_said(json.loads(text[start:end] + "]")[0]):
                return
        except (ValueError, RecursionError):
            return


def _left_open(text: str) -> list[tuple[int, int]]:
    """Where each container that is open at the end begins, and where its last complete part ends (or 0)."""
    stack: list[tuple[int, int]] = []
    for token in _TOKEN.finditer(text):
        found = text[token.start()]
        if found in _CLOSED_BY:
            stack.append((token.start(), 0))
        elif found in "]}":
            if not stack or _CLOSED_BY[text[stack.pop()[0]]] != found:
                return []
            if stack:
                stack[-1] = stack[-1][0], token.end()
        elif found == "," and stack:
            stack[-1] = stack[-1][0], token.start()
    return stack


def _is_said(part: Any, is_whole: bool = False) -> bool:
    """Whether what there is of an object shows a message or a turn, which is of use as a whole only."""
    if not isinstance(part, dict):
        return False
    said = [part, part.get("info")]
    if any(isinstance(one, dict) and (role_of(one) or is_message(one)) for one in said):
        return True
    return not is_whole and any(key in part for key in _OF_A_TURN)
