"""Toolkit: how a client behaves, as far as one seldom has to say it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from broker.client.checks import check_choice, check_seconds, check_text
from broker.client.codecs import codecs_named
from broker.client.management import check_management_url
from broker.client.retry import Backoff, Exponential, check_backoff

if TYPE_CHECKING:
    from broker.client.codecs import Codec

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What :func:`broker.client.connect` takes as ``options``."""

    timeout: float = 10.0
    """How long anything but sending waits for the broker, reconnecting included."""

    send_timeout: float = 30.0
    """How long sending does."""

    backoff: Backoff = field(default_factory=lambda: Exponential(0.1, cap=30.0, jitter=0.2))
    """How long to wait between attempts to connect."""

    accept: tuple[str | Codec, ...] = ()
    """Codecs to read besides JSON, msgpack and the client's own: ``("pickle",)``, say."""

    topics: str = "amq.topic"
    """The topic exchange that ``publish``, ``subscribe`` and ``bind`` use; it has to be there."""

    delays: Literal["auto", "exchange", "ladder"] = "auto"
    """How messages wait: in an exchange of type x-delayed-message, which Leveret has and RabbitMQ
    with a plugin, or in queues whose messages expire, which every broker has. ``auto`` knows
    Leveret and takes the queues elsewhere."""

    management_url: str | None = None
    """Where the broker's HTTP API is, ``http://user:password@host:15672``, for what AMQP does not
    tell: lists of queues, and what happened in them."""

    def __post_init__(self) -> None:
        check_seconds("timeout", self.timeout)
        check_seconds("send_timeout", self.send_timeout)
        check_backoff(self.backoff)
        check_choice("delays", self.delays, ("auto", "exchange", "ladder"))
        check_text("topics", self.topics)
        codecs_named(self.accept)
        if self.management_url is not None:
            check_management_url(self.management_url)
