"""The form of a handler, and of the table of all handlers that the core is given."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.steps import Steps
from klamm.protocol.api import Api

Handler: TypeAlias = Callable[[MetadataImage, Any, RequestContext], Outcome | Steps]
"""Decides a request. One that may take long is a generator: it pauses at each `yield`, and returns its outcome."""
Handlers: TypeAlias = Mapping[Api[Any, Any], Handler]
"""The handler of each API that is served."""
