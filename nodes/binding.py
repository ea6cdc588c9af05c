"""Models that bind their reasoning to every earlier byte: what has come loose is taken out (issue 34).

Where nothing before a message has changed its reasoning goes back as it came. A pass that moves the window
takes out all reasoning behind the first byte it moved; the round that is being answered is closed, for its
provider would ask for the reasoning otherwise. What is taken out stays in the archive.
"""

from collections.abc import Mapping, Sequence

from langchain_core.messages import AIMessage, BaseMessage

from headwater.nodes.engine import Engine, revised
from headwater.window.frame import Edit, Frame
from headwater.window.marks import tag_of
from headwater.window.providers import Provider, Reasoning
from headwater.window.reasoning import holds_round, reasoning_tokens


def loosened(
    provider: Provider, frame: Frame, messages: Sequence[BaseMessage], wanted: Mapping[int, Edit]
) -> dict[int, Edit]:
    """The wanted edits, as the provider's rule for reasoning lets them be done, and what must follow.

    An edit in the round that is being answered closes it. Under BOUND the reasoning behind the first edit
    goes too.
    """
    edits = dict(wanted)
    if provider.reasoning is Reasoning.BOUND and edits:
        first = min(edits)
        for message in messages:
            tag = tag_of(message)
            bound = tag > first and tag not in edits and tag not in frame.edits
            if bound and isinstance(message, AIMessage) and reasoning_tokens(message):
                edits[tag] = Edit.STRIP
    answered = _being_answered(messages)
    if answered is not None and (tag := tag_of(answered)) in edits and holds_round(answered, provider):
        edits[tag] = Edit.CLOSE
    return edits


def head_moved(
    engine: Engine, frame: Frame, messages: Sequence[BaseMessage]
) -> tuple[Frame, dict[int, Edit]]:
    """The frame with its head noted, and what must go because all that stands before the tail has changed."""
    if engine.provider.reasoning is not Reasoning.BOUND:
        return frame, {}
    with engine.view(frame, messages) as view:
        hidden = view.hidden_images
    head = revised(Frame(), engine.identity, *engine.texts(frame), frame.boundary, frame.lead, hidden)
    if head == frame.head:
        return frame, {}
    made = [m for m in messages if isinstance(m, AIMessage) and tag_of(m) not in frame.edits]
    loose = {tag_of(m): Edit.STRIP for m in made if tag_of(m) and reasoning_tokens(m)}
    return frame.with_(head=head), loose


def _being_answered(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """The assistant message whose calls are being answered; None where the newest word is a user's."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return message if message.tool_calls else None
        if message.type != "tool":
            return None
    return None
