"""Toolkit, tasks: the arguments and the result of a function, as values of their types.

A codec knows few types: a date arrives as a text. What the function's annotations say makes a date
of it again. Nothing is imported by name from a message: the types are those of the function here.

Invariant: annotations are resolved when they are first needed and not at import, where what they
name may not be there yet; one that cannot be resolved, or is of a kind that cannot be converted
to, is taken for Any.
"""

from __future__ import annotations

import inspect
import logging
import typing
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ArgumentError", "Signature"]

LOG: Final = logging.getLogger("leveret.tasks")
PICKLE: Final = "application/x-python-pickle"
AS_THEY_ARE: Final = frozenset({Any, object, inspect.Parameter.empty})
CHECKED_BY_TYPE: Final = frozenset({str, int, bool, float, bytes, type(None)})
"""Types whose values need no conversion if they are of exactly that type."""


class ArgumentError(TypeError):
    """A task was sent with arguments that its function does not take."""


class Signature:
    """How to call a function with values that came over the wire."""

    __slots__ = ("_bindable", "_function", "_keywords", "_positions", "_returns", "_variadic")

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._bindable = inspect.signature(function)
        self._positions: list[Any] | None = None
        self._keywords: dict[str, Any] = {}
        self._variadic: tuple[Any, Any] = (Any, Any)
        self._returns: Any = Any

    @property
    def returns(self) -> Any:
        """What the function returns, as far as it says so."""
        if self._positions is None:
            self._resolve()

        return self._returns

    def check(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Raise TypeError if the function cannot be called like that; the sender asks this."""
        self._bindable.bind(*args, **kwargs)

    def convert(
        self, args: list[Any], kwargs: dict[str, Any], content_type: str
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments as values of their types.

        Raises:
            ArgumentError: they are of other types.

        """
        if self._positions is None:
            self._resolve()

        assert self._positions is not None
        if content_type == PICKLE:
            return args, kwargs

        positions = self._positions
        try:
            for index, value in enumerate(args):
                wanted = positions[index] if index < len(positions) else self._variadic[0]
                if wanted is not Any and type(value) is not wanted:
                    args[index] = _convert(value, wanted)

            for name, value in kwargs.items():
                wanted = self._keywords.get(name, self._variadic[1])
                if wanted is not Any and type(value) is not wanted:
                    kwargs[name] = _convert(value, wanted)
        except msgspec.ValidationError as problem:
            raise ArgumentError(str(problem)) from problem

        return args, kwargs

    def convert_result(self, value: object, content_type: str) -> object:
        """Return a result as a value of the type that the function returns."""
        wanted = self.returns
        if wanted is Any or content_type == PICKLE or type(value) is wanted:
            return value

        try:
            return _convert(value, wanted)
        except msgspec.ValidationError as problem:
            LOG.warning("the result of a task is not what its annotation says: %s", problem)
            return value

    def _resolve(self) -> None:
        hints = _hints(self._function)
        positions = []
        variadic: list[Any] = [Any, Any]
        for name, parameter in self._bindable.parameters.items():
            wanted = _usable(hints.get(name, Any))
            if parameter.kind is parameter.VAR_POSITIONAL:
                variadic[0] = wanted
            elif parameter.kind is parameter.VAR_KEYWORD:
                variadic[1] = wanted
            else:
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    positions.append(wanted)

                self._keywords[name] = wanted

        self._variadic = (variadic[0], variadic[1])
        self._returns = _usable(hints.get("return", Any))
        self._positions = positions


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception as problem:  # whatever evaluating an annotation may raise
        LOG.debug("annotations of %r are not resolved: %r", function, problem)
        return {}


def _usable(wanted: Any) -> Any:
    """Return a type to convert to, or Any where there is nothing to convert to."""
    if wanted is None:
        return type(None)

    try:
        if wanted in AS_THEY_ARE:
            return Any

        if wanted in CHECKED_BY_TYPE:
            return wanted

        kind = msgspec.inspect.type_info(wanted)
    except Exception:  # unhashable, unsupported, or a type variable
        return Any

    return Any if isinstance(kind, msgspec.inspect.CustomType | msgspec.inspect.AnyType) else wanted


def _convert(value: Any, wanted: Any) -> Any:
    if isinstance(wanted, type) and isinstance(value, wanted):
        return value

    return msgspec.convert(value, wanted)
