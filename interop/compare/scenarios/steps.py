"""What many scenarios begin and end with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interop.compare.client import Channel
    from interop.compare.session import Session

__all__ = ["drain", "fill", "filled", "letters"]


def fill(session: Session, queue: str, *bodies: str) -> Channel:
    """Publish to a queue and wait until all are confirmed; returns the channel."""
    channel = session.channel()
    session.unrecorded(channel, "confirm.select")
    for body in bodies:
        channel.publish("", queue, body.encode())

    channel.confirms(len(bodies))
    return channel


def filled(session: Session, count: int, suffix: str = "q", **arguments: object) -> str:
    """Declare a queue and put the messages ``0``, ``1`` and so on into it; returns its name."""
    queue = session.queue(suffix, arguments={name.replace("_", "-"): value for name, value
                                             in arguments.items()})  # fmt: skip
    fill(session, queue, *map(str, range(count)))
    return queue


def drain(session: Session, queue: str, count: int) -> None:
    """Get that many messages from a queue on a channel of its own, and one more."""
    channel = session.channel()
    for _ in range(count + 1):
        channel.call("basic.get", queue=queue, no_ack=True)


def letters(session: Session, key: str | None = None, **more: object) -> tuple[str, str]:
    """A queue whose dead letters go to another one, by the default exchange; returns both names."""
    target = session.queue("target")
    arguments: dict[str, object] = {name.replace("_", "-"): value for name, value in more.items()}
    arguments["x-dead-letter-exchange"] = ""
    arguments["x-dead-letter-routing-key"] = target if key is None else key
    return session.queue(arguments=arguments), target
