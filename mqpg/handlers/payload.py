"""What a handler is given: the message, or its payload as the type that the handler names."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Sequence
from typing import Any

from mqpg.handlers.options import ConsumerOptions
from mqpg.handlers.outcomes import Reject
from mqpg.handlers.signature import positional
from mqpg.values.errors import ConfigurationError
from mqpg.values.messages import Message

__all__ = ["Given", "payload_type", "what_is_given"]

Given = Callable[[Any], Any]
"""Takes a message, or a list of messages in a batch, and returns what the handler is given."""

_MOST_SAID = 3  # how many faults of a payload the reason of its dead letter names


def what_is_given(handler: Callable[..., Any], options: ConsumerOptions) -> Given | None:
    """Choose by the annotation of the handler's first parameter what makes the argument of a message.

    None: the handler gets the message itself, because the parameter is annotated with it or not at all.
    Raises ConfigurationError if the annotation is no type that a payload can be read as.
    """
    wanted = payload_type(handler, options)
    if wanted is None:
        return None
    name = getattr(handler, "__name__", repr(handler))
    if options.batch and options.where == "external":
        raise ConfigurationError(
            f"{name} must take messages: a batch outside a transaction cannot reject one payload and keep the others"
        )
    read = _reader(wanted, name)
    return (lambda messages: [read(message) for message in messages]) if options.batch else read


def payload_type(handler: Callable[..., Any], options: ConsumerOptions) -> Any:
    """The type that the handler names for a payload. None: it takes the message itself."""
    wanted = positional(handler)[0].annotation
    if options.batch:
        wanted = _element(wanted)
    return None if _means_message(wanted) else wanted


def _reader(wanted: Any, name: str) -> Callable[[Message], Any]:
    if isinstance(wanted, str):
        raise ConfigurationError(
            f"the first parameter of {name} is annotated {wanted}, which cannot be looked up: define or import it "
            "in the module, not in a function or for type checkers only"
        )
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    try:
        adapter = TypeAdapter(wanted)
    except PydanticUserError as error:
        raise ConfigurationError(
            f"the first parameter of {name} must be a Message, or a type that a payload can be read as "
            f"(a dataclass, a model of pydantic, dict), not {wanted!r}: {error.message.splitlines()[0]}"
        ) from None

    def read(message: Message) -> Any:
        try:
            return adapter.validate_json(message.raw)
        except ValidationError as error:
            # Without the values, which may be nobody's business who looks at dead letters.
            faults = error.errors(include_url=False, include_input=False, include_context=False)
            said = [": ".join(filter(None, (".".join(map(str, one["loc"])), one["msg"]))) for one in faults]
            more = f" and {len(said) - _MOST_SAID} more" if len(said) > _MOST_SAID else ""
            title = getattr(wanted, "__name__", str(wanted))
            raise Reject(f"the payload is no {title}: {'; '.join(said[:_MOST_SAID])}{more}") from None

    return read


def _element(annotation: Any) -> Any:
    """The type of the elements of a list or sequence."""
    if isinstance(annotation, str):
        return annotation
    if typing.get_origin(annotation) in (list, Sequence) and typing.get_args(annotation):
        return typing.get_args(annotation)[0]
    return Message


def _means_message(annotation: Any) -> bool:
    if isinstance(annotation, str):  # it could not be looked up
        return re.search(r"\bMessage\b", annotation) is not None
    return isinstance(annotation, typing.TypeVar) or annotation in (inspect.Parameter.empty, Any, object, Message)
