"""Tools over the source of installed packages: list, read, search; nothing outside it, nothing written."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from langchain_core.tools import BaseTool, StructuredTool, ToolException

PAGE_LINES = 160
MAX_PAGE_LINES = 600
MAX_HITS = 1_000
_LINE_CHARS = 240


class NoSuchPackage(LookupError):
    """A package that is not installed here, or has no source of its own."""


class Codebase:
    """The Python files of some installed packages, by paths like `langgraph/pregel/main.py`.

    Args:
        roots: Folder of each package, by the package's name.
    """

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = {name: folder.resolve() for name, folder in roots.items()}
        self._texts: dict[str, str] = {}

    @classmethod
    def installed(cls, *packages: str) -> "Codebase":
        """The source of packages as they are installed here; none of them is imported.

        Raises:
            NoSuchPackage: One is not installed.
        """
        roots = {}
        for name in packages:
            spec = find_spec(name)
            folders = list(spec.submodule_search_locations or ()) if spec else []
            if not folders:
                raise NoSuchPackage(f"package {name!r} is not installed here; install it, or name another")
            roots[name] = Path(folders[0])
        return cls(roots)

    @cached_property
    def files(self) -> dict[str, int]:
        """Lines of every file, by path."""
        found = {}
        for name, root in sorted(self._roots.items()):
            for file in sorted(root.rglob("*.py")):
                path = f"{name}/{file.relative_to(root).as_posix()}"
                # A link that leads out of the package is not part of it.
                if self._confined(path):
                    found[path] = len(self.text(path).splitlines())
        return found

    def text(self, path: str) -> str:
        """A file's text.

        Raises:
            ToolException: There is no such file in these packages.
        """
        known = self._texts.get(path)
        if known is None:
            file = self._confined(path)
            if file is None or file.suffix != ".py" or not file.is_file():
                raise ToolException(f"{path!r} is no file here; list_dir('.') shows what there is")
            known = self._texts[path] = file.read_text("utf-8", "replace")
        return known

    def tools(self) -> list[BaseTool]:
        """`list_dir`, `read_file` and `search`; a mistake in a call is an answer, not a crash."""

        def list_dir(path: str = ".") -> str:
            """List a folder: its sub-folders and Python files with their sizes in lines. "." is the top."""
            return self.list_dir(path)

        def read_file(path: str, offset: int = 0, limit: int = PAGE_LINES) -> str:
            """Read lines of a file, from line `offset` (counted from 0), at most `limit` lines."""
            return self.read_file(path, offset, limit)

        def search(pattern: str, path: str = ".") -> str:
            """Search a regular expression in all files under a folder; answers `path:line: text` lines."""
            return self.search(pattern, path)

        functions: Sequence[Callable[..., str]] = (list_dir, read_file, search)
        tools: list[BaseTool] = []
        for function in functions:
            tool = StructuredTool.from_function(function, name=function.__name__)
            tool.handle_tool_error = True
            tools.append(tool)
        return tools

    def list_dir(self, path: str = ".") -> str:
        """One line for the folder, then one for each entry, folders first."""
        base = _folder(path)
        folders: dict[str, list[int]] = {}
        files: dict[str, int] = {}
        for name, lines in self._under(base).items():
            rest = name.removeprefix(f"{base}/") if base else name
            head, _, tail = rest.partition("/")
            if tail:
                folders.setdefault(head, []).append(lines)
            else:
                files[head] = lines
        total = [*files.values(), *(lines for sizes in folders.values() for lines in sizes)]
        rows = [f"{base or '.'}: {len(total):,} files, {sum(total):,} lines"]
        rows += [f"  {name}/  {len(s):,} files, {sum(s):,} lines" for name, s in sorted(folders.items())]
        rows += [f"  {name}  {lines:,} lines" for name, lines in sorted(files.items())]
        return "\n".join(rows)

    def read_file(self, path: str, offset: int = 0, limit: int = PAGE_LINES) -> str:
        """A head line with the range, then the lines as they are; a last line says how to go on."""
        lines = self.text(_folder(path)).splitlines()
        if not 0 <= offset <= max(0, len(lines) - 1) or limit < 1:
            raise ToolException(
                f"{path!r} has {len(lines):,} lines; offset={offset!r} limit={limit!r} is outside"
            )
        end = min(len(lines), offset + min(limit, MAX_PAGE_LINES))
        more = [f"(go on with offset={end})"] if end < len(lines) else []
        return "\n".join(
            [f"{_folder(path)}: lines {offset + 1}-{end} of {len(lines)}", *lines[offset:end], *more]
        )

    def search(self, pattern: str, path: str = ".") -> str:
        """A head line with the number of hits, then the hits in order of path and line."""
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise ToolException(f"{pattern!r} is no regular expression: {error}") from error
        hits = [
            f"{name}:{number}: {line.strip()[:_LINE_CHARS]}"
            for name in self._under(_folder(path))
            for number, line in enumerate(self.text(name).splitlines(), 1)
            if wanted.search(line)
        ]
        cut = [f"({len(hits) - MAX_HITS:,} more; search a smaller folder)"] if len(hits) > MAX_HITS else []
        return "\n".join([f"{len(hits):,} hits for {pattern}", *hits[:MAX_HITS], *cut])

    def _under(self, base: str) -> dict[str, int]:
        found = {k: v for k, v in self.files.items() if not base or k == base or k.startswith(f"{base}/")}
        if not found:
            raise ToolException(f"{base!r} is no folder here; list_dir('.') shows what there is")
        return found

    def _confined(self, path: str) -> Path | None:
        """The file of a path, None where it would lie outside its package, links followed."""
        name, _, rest = path.partition("/")
        root = self._roots.get(name)
        if root is None or not rest:
            return None
        try:
            file = (root / rest).resolve()
        except (OSError, ValueError):
            return None
        return file if file.is_relative_to(root) else None


def _folder(path: str) -> str:
    """A path as it is kept here: no blanks, no leading "./", no closing "/"; "" for the top."""
    plain = path.strip().removeprefix("./").strip("/")
    return "" if plain == "." else plain
