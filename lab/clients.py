"""Real clients of the strict provider, each of its provider's own package."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headwater.lab.server import PURPOSE_HEADER
from headwater.lab.unwalked import Unwalked

if TYPE_CHECKING:
    from langchain_anthropic import ChatAnthropic
    from langchain_core.language_models import BaseChatModel
    from langchain_openai import ChatOpenAI


class Clients:
    """Makes clients that talk to `url`; a request is sent once, and says what it is for."""

    url: str

    def openai(self, model: str = "strict-main", *, purpose: str = "", **kw: Any) -> "ChatOpenAI":
        """A real `ChatOpenAI` that talks to this server, once for each call."""
        return self._openai("", model, purpose, kw)

    def anthropic(self, model: str = "claude-strict", *, purpose: str = "", **kw: Any) -> "ChatAnthropic":
        """A real `ChatAnthropic` that talks to this server, once for each call."""
        from langchain_anthropic import ChatAnthropic

        given = {"api_key": "none", "max_retries": 0, "stream_usage": True, **kw}
        return ChatAnthropic(model_name=model, base_url=self.url, default_headers=_headers(purpose), **given)

    def vllm(self, model: str = "strict-main", *, purpose: str = "", **kw: Any) -> "ChatOpenAI":
        """A real `ChatOpenAI` that talks to this server as to a vLLM with Mistral's chat template."""
        return self._openai("/vllm", model, purpose, kw)

    def mistral(self, model: str = "mistral-strict", *, purpose: str = "", **kw: Any) -> "BaseChatModel":
        """A real `ChatMistralAI` that talks to this server (package `langchain-mistralai`)."""
        from langchain_mistralai import ChatMistralAI

        given = {"api_key": "none", "max_retries": 0, **kw}
        made = ChatMistralAI(model_name=model, base_url=f"{self.url}/mistral/v1", **given)
        for client in (made.client, made.async_client):
            client.headers.update(_headers(purpose))
        return made

    def deepseek(self, model: str = "deepseek-strict", *, purpose: str = "", **kw: Any) -> "BaseChatModel":
        """A real `ChatDeepSeek` that talks to this server (package `langchain-deepseek`)."""
        from langchain_deepseek import ChatDeepSeek

        given = {"api_key": "none", "max_retries": 0, "default_headers": _headers(purpose), **kw}
        return ChatDeepSeek(model=model, base_url=f"{self.url}/deepseek/v1", **given)

    def gemini(self, model: str = "gemini-strict", *, purpose: str = "", **kw: Any) -> "BaseChatModel":
        """A real `ChatGoogleGenerativeAI` that talks to this server (package `langchain-google-genai`)."""
        from langchain_google_genai import ChatGoogleGenerativeAI

        # One attempt: to this client 0 means its own default.
        given = {"api_key": "none", "max_retries": 1, "additional_headers": _headers(purpose), **kw}
        return ChatGoogleGenerativeAI(model=model, base_url=self.url, **given)

    def _openai(self, prefix: str, model: str, purpose: str, kw: Mapping[str, Any]) -> "ChatOpenAI":
        from langchain_openai import ChatOpenAI

        given = {"api_key": "none", "max_retries": 0, "stream_usage": True, "use_responses_api": False, **kw}
        place = f"{self.url}{prefix}/v1"
        made = ChatOpenAI(model=model, base_url=place, default_headers=_headers(purpose), **given)
        made.client, made.async_client = Unwalked(made.client), Unwalked(made.async_client)
        return made


def _headers(purpose: str) -> dict[str, str]:
    # One connection a call: a client dropped with a live one would warn of a leaked socket.
    return {"Connection": "close", PURPOSE_HEADER: purpose} if purpose else {"Connection": "close"}
