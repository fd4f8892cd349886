"""Toolkit: values to bytes and back. Shared by client, queues and tasks.

Invariant: what is not accepted is not decoded: pickle runs code, so it is read only by those who
ask for it by name. The content type of a message says which codec wrote it.
"""

from __future__ import annotations

import functools
import pickle
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast, runtime_checkable

import msgspec
import msgspec.inspect

from broker.client.calling import failure_of
from broker.client.checks import check_text, shown
from broker.client.errors import DecodeError, EncodeError, InvalidValue
from broker.client.texts import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import UnionType
    from typing import _SpecialForm

    Form = UnionType | _SpecialForm
    """What is no class and yet a type, to a type checker: ``int | None``, ``Literal["a"]``."""

__all__ = [
    "BYTES",
    "JSON",
    "MSGPACK",
    "PICKLE",
    "Codec",
    "Codecs",
    "codec_named",
    "codecs_named",
]

T = TypeVar("T")

BYTES: Final = "application/octet-stream"
TEXT: Final = "text/plain"


@runtime_checkable
class Codec(Protocol):
    """Writes and reads one format. Anything that has these three is one."""

    @property
    def content_type(self) -> str:
        """What messages of this format say they are."""
        ...

    def encode(self, value: object) -> bytes:
        """Return the bytes of a value; whatever it raises becomes an :class:`EncodeError`."""
        ...

    def decode(self, data: bytes, into: Any) -> Any:
        """Return the value of some bytes, of the type ``into``, or any if that is None."""
        ...


class _Json:
    content_type: Final = "application/json"

    def encode(self, value: object) -> bytes:
        return msgspec.json.encode(value)

    def decode(self, data: bytes, into: Any) -> Any:
        return msgspec.json.decode(data, type=Any if into is None else into)


class _Msgpack:
    content_type: Final = "application/msgpack"

    def encode(self, value: object) -> bytes:
        return msgspec.msgpack.encode(value)

    def decode(self, data: bytes, into: Any) -> Any:
        return msgspec.msgpack.decode(data, type=Any if into is None else into)


class _Pickle:
    content_type: Final = "application/x-python-pickle"

    def encode(self, value: object) -> bytes:
        return pickle.dumps(value)

    def decode(self, data: bytes, into: Any) -> Any:
        value = pickle.loads(data)  # noqa: S301 - opt-in
        if isinstance(into, type) and not isinstance(value, into):
            raise TypeError(f"it is of {type(value).__name__}, not of {into.__name__}")

        return value


JSON: Final[Codec] = _Json()
MSGPACK: Final[Codec] = _Msgpack()
PICKLE: Final[Codec] = _Pickle()

NAMED: Final[dict[str, Codec]] = {"json": JSON, "msgpack": MSGPACK, "pickle": PICKLE}


def codec_named(codec: str | Codec) -> Codec:
    """Return the codec of that name; a codec is itself.

    Raises:
        InvalidValue: there is none.

    """
    if not isinstance(codec, str):
        if not isinstance(codec, Codec):
            raise InvalidValue(
                f"a codec has content_type, encode and decode; {shown(codec)} has not"
            )

        check_text("content_type", codec.content_type)
        return codec

    if codec not in NAMED:
        raise InvalidValue(f"there is no codec {shown(codec)}; there are {', '.join(NAMED)}")

    return NAMED[codec]


NO_TYPES: Final = (str, bytes, int, float, list, tuple, dict, set)
"""Of what one may give by mistake where a type is wanted. A codec of one's own may know others."""


def codecs_named(accept: object) -> list[Codec]:
    """Return codecs that are to be accepted, each by its name or itself."""
    if not isinstance(accept, tuple | list):
        raise InvalidValue(f"accept is to be a tuple, such as ('pickle',), not {shown(accept)}")

    return [codec_named(one) for one in accept]


class Codecs:
    """Writes with one codec, and reads what it was told to accept.

    Args:
        codec: what to write with: ``json``, ``msgpack``, ``pickle`` or one of your own.
        accept: what else to read. JSON and msgpack are always read, they can do no harm.

    """

    def __init__(self, codec: str | Codec = "json", accept: Sequence[str | Codec] = ()) -> None:
        self.default = codec_named(codec)
        readable = [JSON, MSGPACK, self.default, *codecs_named(accept)]
        self._readable = {one.content_type: one for one in readable}

    def check_type(self, into: object) -> Any:
        """Return the type, if a message can be read as that: all of a queue would be dead letters.

        Raises:
            InvalidValue: it is one.

        """
        if into is None or into is object:
            return into

        is_refused, text = isinstance(into, NO_TYPES), "it is none"
        readable = self._readable.values()
        if not is_refused and all(codec in (JSON, MSGPACK) for codec in readable):
            is_refused, text = _unreadable(into)

        if is_refused:
            raise InvalidValue(f"type is what bodies are to be, and not {shown(into)}: {text}")

        return into

    def encode(self, value: object) -> tuple[bytes, str]:
        """Return the bytes and the content type of a value. Bytes are sent as they are.

        Raises:
            EncodeError: the codec cannot write that.

        """
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value), BYTES

        try:
            data = self.default.encode(value)
        except BaseException as problem:
            raise EncodeError(
                f"{self.default.content_type} cannot write {type(value).__name__}: "
                f"{text_of(failure_of(problem))}"
            ) from problem

        if not isinstance(data, bytes):
            raise EncodeError(f"{self.default.content_type} has written {type(data).__name__}")

        return data, self.default.content_type

    def decode(self, data: bytes, content_type: str | None, into: type[T] | None = None) -> T:
        """Return the value of a message.

        A message of others that does not say what it is, or says bytes, is bytes, unless a type is
        asked for: then it is taken for what this side writes.

        Raises:
            DecodeError: it is of a kind that is not accepted, broken, or of another type.

        """
        name = (content_type or BYTES).partition(";")[0].strip().lower()
        if name == BYTES and into in (None, bytes, object):
            return cast("T", data)

        codec = self.default if name == BYTES else self._readable.get(name)
        try:
            if codec is not None:
                return cast("T", codec.decode(data, into))

            if name.startswith("text/"):
                text: object = data.decode("utf-8")
                return cast("T", text if into is None else msgspec.convert(text, into))
        except BaseException as problem:
            text = text_of(failure_of(problem))
            raise DecodeError(f"not readable as {codec_label(name, into)}: {text}") from problem

        raise DecodeError(f"messages of {name} are not accepted here")


@functools.lru_cache(256)
def _unreadable(into: object) -> tuple[bool, str]:
    """Say whether neither JSON nor msgpack can be read as that type, and why."""
    try:
        kind = msgspec.inspect.type_info(into)
    except Exception as problem:
        return True, text_of(problem)

    is_custom = isinstance(kind, msgspec.inspect.CustomType)
    return is_custom, "no codec here makes one; a dataclass or a msgspec.Struct would do"


def codec_label(name: str, into: object) -> str:
    """Say what was expected, for a text."""
    if into is None:
        return name

    return f"{name} of {into.__name__ if isinstance(into, type) else into}"
