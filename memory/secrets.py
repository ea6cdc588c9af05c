"""What must not be remembered: keys, tokens, passwords. A rule about passwords is not a password."""

from __future__ import annotations

import re
from typing import NamedTuple


class Secret(NamedTuple):
    """A secret found in a text: its kind, and where it stands. Its value is not repeated."""

    kind: str
    start: int
    end: int


_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
        ("API key", r"\bsk-(?:ant-|proj-|or-|live-)?[A-Za-z0-9_-]{20,}"),
        ("API key", r"\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{16,}"),
        ("AWS access key", r"\b(?:AKIA|ASIA|AGPA|AROA)[A-Z0-9]{16}\b"),
        ("GitHub token", r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}"),
        ("GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
        ("Slack token", r"\bxox[abposr]-[A-Za-z0-9-]{10,}"),
        ("Google API key", r"\bAIza[A-Za-z0-9_-]{35}"),
        ("Hugging Face token", r"\bhf_[A-Za-z0-9]{30,}"),
        ("package registry token", r"\bnpm_[A-Za-z0-9]{36}\b|\bpypi-[A-Za-z0-9_-]{50,}"),
        ("Alibaba Cloud access key", r"\bLTAI[A-Za-z0-9]{12,20}\b"),
        ("Tencent Cloud secret id", r"\bAKID[A-Za-z0-9]{32}\b"),
        ("JSON web token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{10,}"),
        ("bearer token", r"(?i)\bauthorization\s*[:=]\s*(?:bearer|basic)\s+[A-Za-z0-9+/._=-]{16,}"),
    )
)
# The user may be empty, as Redis has it; a password that is a variable or a mask is none.
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]*:(?P<value>[^\s/@]{3,})@[^\s/@]+", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"(?P<name>(?:[A-Za-z0-9]+[_-])*(?:password|passwd|passphrase|pwd|secret|api[ _-]?key|secret[ _-]?key|"
    r"access[ _-]?key|private[ _-]?key|token|credential)(?![A-Za-z0-9])|密码|口令|密钥|令牌|秘钥)"
    r"[\"'`」』]?\s*(?P<link>[:=：＝]+|\bis\b|是|为)\s*[\"'`「『]?(?P<value>[^\s\"'`」』,;，。；、]{4,})",
    re.IGNORECASE,
)
_PASSWORDS = re.compile(r"passw|passphrase|pwd|密码|口令", re.IGNORECASE)
_STAND_IN = re.compile(
    r"[<\[{$%(]|(?:\*|x|\.|…|•|-|_)+$|(?:your|my|the|some|env|os|process|config|settings|vault|none|null|true|false|"
    r"required|optional|example|changeme|placeholder|redacted|todo)\b|(?:your|example|redacted|placeholder)[_-]|"
    r"[\w.-]+\(|[A-Za-z_]+(?:\.[A-Za-z_]+)+$|(?:/|\./|~/)",
    re.IGNORECASE,
)


def find_secret(text: str) -> Secret | None:
    """The first secret in a text, or None.

    >>> find_secret("数据库密码：hunter2_Prod")
    Secret(kind='password', start=3, end=18)
    >>> find_secret("密码不能少于 12 位，token 的有效期是 3600 秒") is None
    True
    """
    for kind, shape in _SHAPES:
        if found := shape.search(text):
            return Secret(kind, found.start(), found.end())
    for found in _URL.finditer(text):
        if not _STAND_IN.match(found["value"]):
            return Secret("password in an address", found.start(), found.end())
    for found in _ASSIGNED.finditer(text):
        if _is_value(found["name"], found["link"], found["value"]):
            kind = "password" if _PASSWORDS.search(found["name"]) else "key or token"
            return Secret(kind, found.start(), found.end())
    return None


def _is_value(name: str, link: str, value: str) -> bool:
    if _STAND_IN.match(value):
        return False
    digits = any(c.isdigit() for c in value)
    letters = any(c.isascii() and c.isalpha() for c in value)
    marks = any(c.isascii() and not c.isalnum() for c in value.rstrip(".!?)"))
    if not value.isascii():
        return False
    if _PASSWORDS.search(name) and link[0] in ":=：＝":
        # After a colon or an equals sign even a plain word is one, if it is long or mixed enough to be
        # chosen.
        return (digits and (letters or marks or len(value) >= 6)) or (letters and marks)
    if _PASSWORDS.search(name):
        return len(value) >= 6 and digits and letters
    return len(value) >= 12 and digits and letters
