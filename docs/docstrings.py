"""Our docstrings say `Example:`; the parser knows the section as `Examples:`."""

import re
from typing import Any

import griffe

_HEAD = re.compile(r"^Example:$", re.M)


class Examples(griffe.Extension):
    """Reads an example as an example, not as a note."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the section in one docstring."""
        if obj.docstring:
            obj.docstring.value = _HEAD.sub("Examples:", obj.docstring.value)
