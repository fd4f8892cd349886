"""SASL mechanisms as pure readers of the client's response (auth layer; rules C-20..C-25, C-33).

Invariant: a mechanism never raises for what a peer sends, and never judges a password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from broker.errors import AMQPError
from broker.wire.tables import decode_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.wire.tables import Field

__all__ = [
    "MECHANISM_NAMES",
    "Amqplain",
    "Anonymous",
    "Credentials",
    "External",
    "Malformed",
    "Mechanism",
    "Plain",
    "Refused",
    "build_mechanisms",
]

MECHANISM_NAMES: Final = ("PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL")


class Credentials(NamedTuple):
    """What the peer says it is, to be checked by ``UserStore.authenticate``."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, ***)"


class Malformed(NamedTuple):
    """Not a response of this mechanism: the socket is closed without a word (rule C-33)."""

    reason: str


class Refused(NamedTuple):
    """A well-formed response that can be no login: answered as a wrong password (rule C-30)."""

    user: str
    reason: str


class Mechanism:
    """Reads the response of one mechanism; stateless, one object serves all connections."""

    __slots__ = ()

    name: ClassVar[str] = ""

    def start(self, response: bytes) -> Credentials | Malformed | Refused:
        """Read the response of connection.start-ok."""
        raise NotImplementedError


class Plain(Mechanism):
    """NUL, user, NUL, password; no authorization identity before, no NUL after (rule C-20)."""

    __slots__ = ()

    name = "PLAIN"

    def start(self, response: bytes) -> Credentials | Malformed | Refused:
        parts = response.split(b"\0", 3)
        if len(parts) != 3:
            return Malformed("a PLAIN response is NUL, user, NUL, password")

        if parts[0]:
            return Malformed("the PLAIN response has an authorization identity, it must be empty")

        return Credentials(_text(parts[1]), _text(parts[2]))


class Amqplain(Mechanism):
    """A field table without its length, with LOGIN and PASSWORD (rule C-21)."""

    __slots__ = ()

    name = "AMQPLAIN"

    def start(self, response: bytes) -> Credentials | Malformed | Refused:
        try:
            table = decode_table(response, 0, len(response))
        except AMQPError as error:
            return Malformed(f"the AMQPLAIN response is no field table: {error.explanation}")

        login = table.get("LOGIN")
        password = table.get("PASSWORD")
        if login is None or password is None:
            return Malformed("the AMQPLAIN response must have the keys LOGIN and PASSWORD")

        user_text = _text_of(login)
        password_text = _text_of(password)
        if user_text is None or password_text is None:
            return Refused(user_text or "", "LOGIN and PASSWORD must be strings")

        return Credentials(user_text, password_text)


class Anonymous(Mechanism):
    """Logs in as a configured user; the response is a trace nobody reads (rule C-23)."""

    __slots__ = ("_credentials",)

    name = "ANONYMOUS"

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def start(self, response: bytes) -> Credentials | Malformed | Refused:
        return self._credentials


class External(Mechanism):
    """Logs in whom the certificate of a TLS connection names (rule C-22).

    The response could name somebody to act for; nobody reads it, in RabbitMQ neither.
    """

    __slots__ = ()

    name = "EXTERNAL"

    def start(self, response: bytes) -> Credentials | Malformed | Refused:
        return Refused("", "a certificate says who it is, and there is none")


def build_mechanisms(names: Iterable[str], *, anonymous: Credentials) -> dict[str, Mechanism]:
    """Make the mechanisms on offer, in the order they are offered in.

    Args:
        names: out of :data:`MECHANISM_NAMES`.
        anonymous: what ANONYMOUS logs in with.

    """
    known: dict[str, Mechanism] = {
        mechanism.name: mechanism
        for mechanism in (Plain(), Amqplain(), Anonymous(anonymous), External())
    }
    return {name: known[name] for name in names}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _text_of(field: Field) -> str | None:
    if isinstance(field.value, str):
        return field.value

    if isinstance(field.value, bytes):
        return _text(field.value)

    return None
