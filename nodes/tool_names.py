"""What a tool does, as far as the words of its name tell."""

import re

READING = frozenset({"read", "view", "open", "cat", "expand"})
NAVIGATING = READING | {"list", "ls", "dir", "tree", "outline", "todo", "todowrite", "task"}
WORKING = frozenset({"edit", "write", "patch", "grep", "glob", "search", "find", "replace"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def words_of(name: str) -> frozenset[str]:
    """The words of a tool's name in lower case, however it joins them.

    >>> sorted(words_of("readFile")), sorted(words_of("mcp__fs__list_dir")), sorted(words_of("LS"))
    (['file', 'read'], ['dir', 'fs', 'list', 'mcp'], ['ls'])
    """
    return frozenset(word.lower() for word in _WORD.findall(name))
