"""A broker with a user whose rights a test gives one by one, and what that user is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.auth.passwords import make_password_hash
from broker.core.settings import NodeSettings
from tests.helpers.session import Session, World, handshake

if TYPE_CHECKING:
    from tests.helpers.session import Heard

__all__ = ["ALL", "NONE", "BobScene", "Rights", "refused", "told"]

Rights = tuple[str, str, str]
"""Patterns for configure, write and read."""

NONE: Final[Rights] = ("", "", "")
ALL: Final[Rights] = (".*", ".*", ".*")


class BobScene:
    """A broker with some exchanges and queues, and bob, whose rights are given as needed.

    ``guest`` owns ``locked`` and consumes ``busy`` exclusively.
    """

    def __init__(self) -> None:
        self.world = World(NodeSettings(message_bytes_max=10, consumers_per_channel_max=1))
        self.world.users.add_user("bob", make_password_hash("bob", b"salt"))
        self.guest = self.world.open(1)
        for name, kind in (("x", "direct"), ("t", "topic"), ("h", "headers")):
            self.guest.ask(1, "exchange.declare", exchange=name, type=kind)

        self.guest.ask(1, "exchange.declare", exchange="inner", type="direct", internal=True)
        self.guest.ask(1, "queue.declare", queue="locked", exclusive=True)
        for queue in ("q", "busy"):
            self.guest.ask(1, "queue.declare", queue=queue)

        self.guest.ask(1, "basic.consume", queue="busy", exclusive=True)

    def allow(self, configure: str = "", write: str = "", read: str = "") -> None:
        self.world.users.set_permissions(
            "bob", vhost="/", configure=configure, write=write, read=read
        )
        self.world.node.rights_changed()

    def bob(self, rights: Rights) -> Session:
        """A connection of bob, who has these rights; channel 1 is open."""
        self.allow(*rights)
        return self.world.open(1, greeting=handshake(user="bob", password="bob"))

    def said(self, rights: Rights, data: bytes) -> str:
        """What bob is told: the reply text of a close, or else the name of the answer."""
        session = self.bob(rights)
        session.feed(data)
        heard = session.heard()
        assert self.world.bugs == []
        return told(heard[-1]) if heard else ""


def told(answer: Heard) -> str:
    return str(answer.arguments.get("reply_text", answer.name))


def refused(right: str, kind: str, name: str) -> str:
    return f"ACCESS_REFUSED - {right} access to {kind} '{name}' in vhost '/' refused for user 'bob'"
