"""What may differ from run to run of one agent: settings handed in as LangGraph's `context`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from langgraph.runtime import get_runtime


class SettingsError(ValueError):
    """A setting of a run that cannot be; the message says what is expected."""


@dataclass(frozen=True)
class RunSettings:
    """The default `context_schema` of `build_agent`; what is None is as the agent was built.

    A schema of one's own may have fields of these names, which are read likewise, beside any others.

    Attributes:
        window: Tokens, in the place of `WindowPolicy.window`; a smaller proved limit holds.
        tenant: Whose long-term facts are read and written, by the agent and by all it delegates to here.
            The log belongs to the thread, whoever the tenant is.
    """

    window: int | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        if self.window is not None and (not isinstance(self.window, int) or self.window < 1):
            raise SettingsError(f"window is in tokens and at least 1, got {self.window!r}")
        if self.tenant is not None and (not isinstance(self.tenant, str) or not self.tenant.strip()):
            raise SettingsError(f"tenant is a name that is not empty, got {self.tenant!r}")


def settings_of(context: Any) -> RunSettings:
    """The settings in a context of any schema: a mapping, or an object with attributes.

    Raises:
        SettingsError: One of them cannot be.
    """
    if context is None or isinstance(context, RunSettings):
        return context or RunSettings()
    names = [field.name for field in fields(RunSettings)]
    if isinstance(context, Mapping):
        return RunSettings(**{name: context.get(name) for name in names})
    return RunSettings(**{name: getattr(context, name, None) for name in names})


def settings_now() -> RunSettings:
    """The settings of the run that is under way; the defaults outside of one."""
    try:
        runtime = get_runtime()
    except RuntimeError:
        return RunSettings()
    return settings_of(getattr(runtime, "context", None))
