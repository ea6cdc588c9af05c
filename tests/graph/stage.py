"""One provider and its clients for many trials."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from langchain_core.language_models import BaseChatModel

from headwater.lab.provider import Reply, Request, StrictProvider
from tests.graph.world import WINDOW

MAIN = ""
CHEAP = "summarizer"


class Stage:
    """One provider and its clients for many trials: what takes long to make is made once.

    `main` and `cheap` are exchanged by each trial; requests are kept with their bytes.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self.now = 0.0
        self.main: Callable[[Request], Reply] = lambda request: Reply("Nothing to do.")
        self.cheap: Callable[[Request], Reply] = lambda request: Reply("")
        self.asked: list[Request] = []
        self.provider = StrictProvider(self._script, window=window, keep_raw=True, clock=self.clock)
        self._clients: dict[tuple[str, str], BaseChatModel] = {}

    def clock(self) -> float:
        """Seconds, for provider and graph alike."""
        return self.now

    def client(self, model: str, purpose: str = MAIN) -> BaseChatModel:
        """The client of a model, made once."""
        key = (model, purpose)
        if key not in self._clients:
            self._clients[key] = self.provider.openai(model, purpose=purpose)
        return self._clients[key]

    def _script(self, request: Request) -> Reply:
        self.asked.append(request)
        return self.cheap(request) if request.purpose == CHEAP else self.main(request)


@contextmanager
def staged(window: int = WINDOW) -> Iterator[Stage]:
    """A stage whose server runs."""
    stage = Stage(window)
    with stage.provider:
        yield stage
