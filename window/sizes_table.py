"""Context windows by model family, 2026: the one copy that loop and settings read (M23, M24).

Input limits in tokens, as published by the providers; where a provider states several, the lower.
"""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_WINDOW = 128_000
"""Window of a model nobody knows, tokens (M23)."""


class Family(NamedTuple):
    """A model family: its pattern, the input limit and the output limit in tokens (None: not known).

    A pattern is words joined by `-`, found anywhere in a name between separators; `*` stands for anything.
    """

    pattern: str
    tokens: int
    output: int | None = None


_K = 1_024

# Names that state their own window. They win over the family they belong to.
_STATED = (
    Family("claude-*-1m", 1_000_000),
    *(Family(f"*-{n}k", n * _K) for n in (4, 8, 16, 32, 64)),
    *(Family(f"*-{n}k", n * 1_000) for n in (128, 200, 256)),
)

_ANTHROPIC = (
    Family("claude", 200_000),
    Family("claude-instant", 100_000, 4_096),
    Family("claude-2", 100_000, 4_096),
    Family("claude-2-1", 200_000, 4_096),
    Family("claude-3", 200_000, 4_096),
    Family("claude-3-5", 200_000, 8_192),
    Family("claude-3-7", 200_000, 64_000),
    *(Family(f"claude-{name}-4", 200_000, out) for name, out in (("opus", 32_000), ("sonnet", 64_000))),
    *(Family(f"claude-{name}-4-5", 200_000, 64_000) for name in ("opus", "sonnet", "haiku")),
    *(
        Family(f"claude-{name}-4-{n}", 1_000_000, 128_000)
        for name in ("opus", "sonnet")
        for n in (6, 7, 8, 9)
    ),
    *(Family(f"claude-{name}-5", 1_000_000, 128_000) for name in ("opus", "sonnet", "fable", "mythos")),
    Family("claude-haiku-5-5", 1_000_000, 128_000),
)

_OPENAI = (
    Family("gpt-3-5-turbo", 16_385, 4_096),
    Family("gpt-35-turbo", 16_385, 4_096),
    Family("gpt-3-5-turbo-instruct", 4_096, 4_096),
    Family("gpt-4", 8_192, 8_192),
    Family("gpt-4-1106", 128_000, 4_096),
    Family("gpt-4-0125", 128_000, 4_096),
    Family("gpt-4-vision", 128_000, 4_096),
    Family("gpt-4-turbo", 128_000, 4_096),
    Family("gpt-4-1", 1_047_576, 32_768),
    Family("gpt-4-5", 128_000, 16_384),
    Family("gpt-4o", 128_000, 16_384),
    Family("chatgpt-4o", 128_000, 16_384),
    Family("gpt-5", 272_000, 128_000),
    *(Family(f"gpt-5-{n}", 272_000, 128_000) for n in (1, 2, 3)),
    Family("gpt-5-3-codex-spark", 128_000, 32_000),
    *(Family(f"gpt-5-{n}", 1_050_000, 128_000) for n in (4, 5)),
    *(Family(f"gpt-5-4-{size}", 272_000, 128_000) for size in ("mini", "nano")),
    Family("gpt-5-6", 922_000, 128_000),
    Family("gpt-6", 922_000, 128_000),
    *(Family(name, 200_000, 100_000) for name in ("o1", "o3", "o4")),
    Family("o1-mini", 128_000, 65_536),
    Family("o1-preview", 128_000, 32_768),
    Family("gpt-oss", 131_072, 131_072),
)

_GOOGLE = (
    Family("gemini", 1_048_576, 8_192),
    Family("gemini-1-5", 1_048_576, 8_192),
    Family("gemini-2-0", 1_048_576, 8_192),
    *(Family(f"gemini-{n}", 1_048_576, 65_536) for n in ("2-5", "3", "4")),
    *(Family(f"gemini-2-5-{size}", 1_048_576, 65_536) for size in ("pro", "flash")),
    Family("gemma-2", 8_192),
    Family("gemma-3", 131_072),
)

_XAI = (
    Family("grok", 131_072),
    Family("grok-4", 256_000),
    *(Family(f"grok-{n}", 1_000_000) for n in ("4-20", "4-3")),
    *(Family(f"grok-4-{n}", 500_000) for n in (5, 6, 7)),
    Family("grok-code-fast", 256_000),
)

_CHINA = (
    *(Family(f"deepseek-{name}", 131_072) for name in ("chat", "reasoner", "r1", "v3")),
    *(Family(f"deepseek-{name}", 163_840) for name in ("v3-2", "v3p2")),
    Family("deepseek-v4", 1_000_000),
    Family("kimi-k2", 262_144),
    Family("kimi-k2-0711", 131_072),
    *(Family(f"kimi-k2-{n}", 262_144) for n in (5, 6, 7)),
    Family("kimi-k3", 1_048_576),
    Family("glm-4-5", 128_000, 96_000),
    *(Family(f"glm-{n}", 200_000, 128_000) for n in ("4-6", "4-7", "5", "5-1")),
    *(Family(f"glm-{n}", 1_000_000, 128_000) for n in ("5-2", "5-3")),
    *(Family(f"qwen3-{n}", 991_808, 65_536) for n in (5, 6, 7, 8)),
    Family("qwen3-max", 258_048, 65_536),
    Family("qwen3-coder-plus", 997_952, 65_536),
    Family("qwen-max", 30_720, 8_192),
    Family("qwen2-5", 32_768, 8_192),
    Family("minimax-m2", 200_000),
    *(Family(f"minimax-m2-{n}", 1_000_000) for n in (1, 2, 3, 5, 7)),
    Family("minimax-m3", 1_000_000),
    Family("doubao-seed-2-0", 256_000),
    Family("doubao-seed-2-1", 1_024_000),
    Family("mimo-v2-6", 1_048_576),
    Family("mimo-2-6", 1_048_576),
)

_OTHERS = (
    Family("mistral-large", 128_000),
    Family("mistral-large-3", 262_144),
    Family("mistral-large-4", 1_000_000),
    Family("mistral-medium", 262_144),
    Family("command-a", 256_000, 8_000),
    Family("llama-2", 4_096),
    Family("llama2", 4_096),
    *(Family(name, 8_192) for name in ("llama-3", "llama3")),
    *(Family(f"{name}-{n}", 131_072) for name in ("llama-3", "llama3") for n in (1, 2, 3)),
    *(Family(name, 32_768) for name in ("mistral-7b", "mixtral-8x7b", "open-mistral-7b")),
    Family("smollm2", 8_192),
)


def _rank(family: Family) -> tuple[bool, int, str]:
    return ("*" not in family.pattern, -len(family.pattern), family.pattern)


FAMILIES = tuple(sorted(_STATED + _ANTHROPIC + _OPENAI + _GOOGLE + _XAI + _CHINA + _OTHERS, key=_rank))
"""All families, the most specific first; the first that fits a name answers."""
