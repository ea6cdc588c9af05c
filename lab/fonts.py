"""Fonts for pictures: words in Chinese, Japanese or Korean need one that the default does not bring."""

from functools import cache
from pathlib import Path

# Of a face that every system with such text has some of; the first that is found serves.
_KNOWN = (
    "NotoSansCJK",
    "SourceHanSans",
    "msyh",
    "PingFang",
    "Hiragino Sans GB",
    "STHeiti",
    "wqy-microhei",
    "wqy-zenhei",
    "simhei",
    "DroidSansFallback",
    "NotoSerifCJK",
    "SourceHanSerif",
    "simsun",
    "ArialUnicode",
)


def wide(character: str) -> bool:
    """Whether a character is one of a script that takes two columns."""
    return "\u1100" <= character <= "\u115f" or "\u2e80" <= character <= "\uffdc"


def columns(text: str) -> int:
    """The width of a text, in columns of a Latin letter."""
    return sum(2 if wide(character) else 1 for character in text)


def families(text: str) -> list[str] | None:
    """Font families that draw a text, in the order to ask for each letter; None: the default's."""
    found = cjk_family() if any(map(wide, text)) else None
    return None if found is None else ["DejaVu Sans", found]


@cache
def cjk_family() -> str | None:
    """The family of an installed font for Chinese; None where there is none."""
    from matplotlib import font_manager

    files = {Path(file).stem.lower().replace(" ", ""): file for file in font_manager.findSystemFonts()}
    for known in _KNOWN:
        stem = known.lower().replace(" ", "")
        for name in sorted((n for n in files if n.startswith(stem)), key=lambda n: ("regular" not in n, n)):
            font_manager.fontManager.addfont(files[name])
            return font_manager.FontProperties(fname=files[name]).get_name()
    return None
