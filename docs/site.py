"""What the documents point at outside docs/ becomes pages of the site: README, notebooks, source files.

The documents are written to be read in the repository; here their links lead to the same texts on the site.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
HOMES = {"index.md": "README.md", "zh.md": "README.zh.md"}
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
_LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".html": "html"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every notebook, and every page of docs/ that has no place yet, into the navigation."""
    nav = config.nav or []
    placed = set(re.findall(r"[\w/]+\.md", json.dumps(nav)))
    sections = {name: pages for entry in nav for name, pages in entry.items() if isinstance(pages, list)}
    sections["Notebooks"] += [
        _uri(f"notebooks/{n.name}") for n in sorted((ROOT / "notebooks").glob("*.ipynb"))
    ]
    sections["How it works"] += [d.name for d in sorted((ROOT / "docs").glob("*.md")) if d.name not in placed]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the READMEs and every file and folder of the repository that a document links to."""
    known = {file.src_uri: f"docs/{file.src_uri}" for file in files if file.src_uri.endswith(".md")}
    known |= HOMES
    apart = [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        *(f"notebooks/{n.name}" for n in ROOT.glob("notebooks/*.ipynb")),
    ]
    wanted = [*HOMES.items(), *((_uri(path), path) for path in apart)]
    seen = set(known.values())
    for source in known.values():
        wanted += [(_uri(path), path) for path in _outside(source)]
    for uri, path in wanted:
        if uri in HOMES or path not in seen:
            seen.add(path)
            wanted += [(_uri(more), more) for more in _outside(path) if path.endswith(".md")]
            files.append(File.generated(config, uri, content=_content(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links of a page to where their targets are on the site."""
    uri = page.file.src_uri
    source = HOMES.get(uri) or (f"docs/{uri}" if files.get_file_from_path(uri) and _is_ours(uri) else "")
    source = source or uri.removeprefix("source/").removesuffix(".ipynb.md")

    def led(found: re.Match[str]) -> str:
        target, mark, anchor = found[2].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        path = normpath(str(PurePosixPath(source).parent / target))
        return f"{found[1]}{relpath(_uri(path), str(PurePosixPath(uri).parent))}{mark}{anchor}{found[3]}"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(led, part) for part in parts)


def _is_ours(uri: str) -> bool:
    return (ROOT / "docs" / uri).is_file()


def _outside(source: str) -> Iterator[str]:
    """Paths in the repository, but not in docs/, that a document links to."""
    text = _FENCE.sub("", (ROOT / source).read_text("utf-8")) if source.endswith(".md") else ""
    for _, link, _ in _LINK.findall(text):
        target = link.partition("#")[0]
        path = normpath(str(PurePosixPath(source).parent / target)) if target and "://" not in target else ""
        if path and path not in HOMES.values() and (path == "docs" or not path.startswith("docs/")):
            yield path


def _uri(path: str) -> str:
    """Where a file of the repository is on the site."""
    for uri, home in HOMES.items():
        if path == home:
            return uri
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    if path.startswith("docs/") and (ROOT / path).is_dir():
        return f"{path.removeprefix('docs/')}/index.md"
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def _content(path: Path) -> str:
    """A page for a file or a folder."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        rows = [
            f"- `{file.name}`: {_about(file)}" for file in sorted(path.iterdir()) if file.suffix in _SHOWN
        ]
        return "\n".join([f"# {name}/", "", *rows])
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix == ".ipynb":
        return "\n\n".join(_cells(json.loads(text)))
    return f"# {name}\n\n````{_LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"


_SHOWN = {".py", ".md", ".ipynb"}


def _about(file: Path) -> str:
    if file.suffix == ".py":
        return (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n")[0]
    head = next((line for line in file.read_text("utf-8").splitlines() if "# " in line), "")
    return head.strip(' ",\\n#').removesuffix("\\n")


def _cells(notebook: dict[str, Any]) -> Iterator[str]:
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        yield text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
