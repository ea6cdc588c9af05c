"""A real model by its name, for a command, or a clear word why it cannot be used."""

import os
import sys

from langchain_core.language_models import BaseChatModel

from headwater.graph.build import UnknownModel, resolve_model

# What each provider's client reads its key from, and the extra or package that brings the client.
_PROVIDERS = {
    "openai": (("OPENAI_API_KEY",), "langchain_openai", "headwater[openai]"),
    "anthropic": (("ANTHROPIC_API_KEY",), "langchain_anthropic", "headwater[anthropic]"),
    "google_genai": (
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "langchain_google_genai",
        "langchain-google-genai",
    ),
    "deepseek": (("DEEPSEEK_API_KEY",), "langchain_deepseek", "langchain-deepseek"),
    "mistralai": (("MISTRAL_API_KEY",), "langchain_mistralai", "langchain-mistralai"),
    "groq": (("GROQ_API_KEY",), "langchain_groq", "langchain-groq"),
    "ollama": ((), "langchain_ollama", "langchain-ollama"),
}


class ModelUnavailable(RuntimeError):
    """The model that was asked for cannot be used here; the message says what to do, `chinese` the same."""

    def __init__(self, text: str, chinese: str) -> None:
        super().__init__(text)
        self.chinese = chinese


class NoSuchModel(ModelUnavailable):
    """The name says neither a provider nor a model that is known."""


def chosen_model(name: str) -> BaseChatModel:
    """The model of a "provider:name".

    Raises:
        NoSuchModel: The name is none.
        ModelUnavailable: The client package or the key is missing.
    """
    from importlib.util import find_spec

    provider, _, model = name.partition(":")
    if not provider or not model:
        raise NoSuchModel(
            f"{name!r} names no model; write 'provider:name', e.g. 'openai:gpt-5.4'",
            f"{name!r} 不是模型名；请写成“服务商:模型”，例如 'openai:gpt-5.4'",
        )
    keys, package, install = _PROVIDERS.get(provider, ((), "", ""))
    if package and find_spec(package) is None:
        raise ModelUnavailable(
            f"{name!r} needs the package {package!r}; pip install '{install}'",
            f"{name!r} 需要软件包 {package!r}；pip install '{install}'",
        )
    if keys and not any(os.environ.get(key) for key in keys):
        raise ModelUnavailable(
            f"{name!r} needs a key; set {' or '.join(keys)} and run again",
            f"{name!r} 需要密钥；请设置 {' 或 '.join(keys)} 后重试",
        )
    try:
        return resolve_model(name)
    except UnknownModel as error:
        chinese = f"{name!r} 不是模型名，或缺少它的客户端；请写成“服务商:模型”，例如 'openai:gpt-5.4'"
        raise NoSuchModel(str(error), chinese) from error


def client_errors() -> tuple[type[Exception], ...]:
    """What the loaded providers' clients raise when a call fails: a wrong key, no network, a refusal."""
    names = (("openai", "OpenAIError"), ("anthropic", "AnthropicError"), ("httpx", "HTTPError"))
    found = (getattr(sys.modules.get(module), name, None) for module, name in names)
    return tuple(error for error in found if isinstance(error, type) and issubclass(error, Exception))
