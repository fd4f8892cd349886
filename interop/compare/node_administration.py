"""Administration of this broker by the commands of its core, and a broker in a thread to try it on.

It is the only part of the comparison that knows the broker under comparison.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from broker.auth.passwords import SALT_BYTES, make_password_hash
from broker.clock import SystemClock
from broker.core import limit_commands, user_commands
from broker.core.policy import policy_from_plain
from broker.core.policy_rules import PolicyInvalid
from broker.core.settings import NodeSettings
from broker.embedded import Broker
from broker.net.pump import Pump
from interop.compare.administration import Governed, Refused
from interop.compare.network import SocketNetwork
from interop.compare.session import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.core.node import Node
    from broker.core.policy import Policy
    from interop.compare.administration import PolicySetting, Rights, TopicRights, UserSetting

__all__ = ["NodeAdministration", "embedded_target"]

GUEST: Final = "guest"


class NodeAdministration:
    """Runs commands of a node.

    Args:
        node: the broker core.
        run: does one thing to the core where and when that may be done.

    """

    def __init__(self, node: Node, run: Callable[[Callable[[], None]], None]) -> None:
        self._node = node
        self._run = run

    def set_policy(self, setting: PolicySetting) -> None:
        plain = {
            "pattern": setting.pattern,
            "definition": setting.definition,
            "apply-to": setting.apply_to,
            "priority": setting.priority,
        }
        is_operator = setting.is_operator
        try:
            policy = policy_from_plain(setting.name, plain, is_operator=is_operator)
        except PolicyInvalid as error:
            raise Refused(str(error)) from None

        vhost = self._node.vhosts[setting.vhost]
        self._run(lambda: vhost.set_policy(policy, is_operator=is_operator))

    def clear_policy(self, name: str, *, is_operator: bool = False, vhost: str = "/") -> None:
        found: list[bool] = []
        clear = self._node.vhosts[vhost].clear_policy
        self._run(lambda: found.append(clear(name, is_operator=is_operator)))
        if not found[0]:
            raise Refused("Not Found")

    def queue_governed(
        self, queue: str, expected: Governed | None, *, vhost: str = "/"
    ) -> Governed:
        host = self._node.vhosts[vhost]
        applied = host.policies.for_queue(queue, host.queues[queue].type)
        definition = dict(host.queues[queue].policy_definition)
        return Governed(_name(applied.policy), _name(applied.operator_policy), definition)

    def exchange_policy(self, exchange: str, *, vhost: str = "/") -> str:
        return _name(self._node.vhosts[vhost].policies.for_exchange(exchange).policy)

    # -- users and virtual hosts

    def put_user(self, setting: UserSetting) -> None:
        salt = self._node.random_bytes(SALT_BYTES)
        secret = make_password_hash(setting.password or setting.name, salt)
        put = user_commands.put_user
        self._do(put, setting.name, secret, tags=setting.tags)

    def delete_user(self, name: str) -> None:
        self._do(user_commands.delete_user, name)

    def add_vhost(self, name: str) -> None:
        self._run(lambda: _nothing(self._node.add_vhost(name, by=GUEST)))
        everything = user_commands.Rights(".*", ".*", ".*")
        self._do(user_commands.set_permissions, GUEST, everything, vhost=name)

    def delete_vhost(self, name: str) -> None:
        self._run(lambda: _nothing(self._node.delete_vhost(name, by=GUEST)))

    def set_rights(self, user: str, rights: Rights, *, vhost: str = "/") -> None:
        own = user_commands.Rights(*rights)
        self._do(user_commands.set_permissions, user, own, vhost=vhost)

    def clear_rights(self, user: str, *, vhost: str = "/") -> None:
        self._do(user_commands.clear_permissions, user, vhost=vhost)

    def set_topic_rights(self, user: str, rights: TopicRights, *, vhost: str = "/") -> None:
        own = user_commands.TopicRights(*rights)
        self._do(user_commands.set_topic_permissions, user, own, vhost=vhost)

    def clear_topic_rights(self, user: str, *, vhost: str = "/") -> None:
        self._do(user_commands.clear_topic_permissions, user, vhost=vhost)

    def limit_user(self, user: str, limit: str, value: int) -> None:
        self._do(limit_commands.set_user_limits, user, {limit: value})

    def limit_vhost(self, vhost: str, limit: str, value: int) -> None:
        limits = limit_commands.limits_of_vhost(self._node.vhosts[vhost])
        self._do(limit_commands.set_vhost_limits, vhost, {**limits, limit: value})

    # -- the whole broker

    @property
    def has_control(self) -> bool:
        return True

    def set_alarm(self, name: str, is_on: bool) -> None:
        self._run(lambda: self._node.set_alarm(name, is_on))

    def set_consumer_timeout(self, milliseconds: int | None) -> None:
        node = self._node
        asked = NodeSettings().consumer_timeout_ms if milliseconds is None else milliseconds
        node.settings = node.settings._replace(consumer_timeout_ms=asked)

    def _do(self, command: Callable[..., object], *words: object, **more: object) -> None:
        """Run a command of administrators as guest."""
        refused: list[str] = []

        def obey() -> None:
            try:
                command(self._node, *words, **more, by=GUEST)
            except (user_commands.NoSuchUser, user_commands.NoSuchVirtualHost, ValueError) as error:
                refused.append(str(error))

        self._run(obey)
        if refused:
            raise Refused(refused[0])


def _nothing(_: object) -> None:
    """For commands whose result is of no interest."""


def _name(policy: Policy | None) -> str:
    return policy.name if policy is not None else ""


@contextlib.contextmanager
def embedded_target() -> Iterator[Target]:
    """A broker that listens on a port of its own, in a thread of this process."""
    started: Future[tuple[Broker, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        # On all addresses, as RabbitMQ: some scenarios come from another than the loopback one.
        async with Broker(host="0.0.0.0", log_level="error") as broker:  # noqa: S104 - see above
            ended = asyncio.Event()
            started.set_result((broker, asyncio.get_running_loop(), ended))
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    broker, loop, ended = started.result(timeout=10)
    pump = Pump(broker.node, SystemClock(), loop)

    def run(command: Callable[[], None]) -> None:
        async def step() -> None:
            pump.run(command)

        asyncio.run_coroutine_threadsafe(step(), loop).result(timeout=10)

    try:
        network = SocketNetwork("127.0.0.1", broker.port)
        yield Target(network, administration=NodeAdministration(broker.node, run))
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
