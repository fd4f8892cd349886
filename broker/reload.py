"""Takes on another configuration while the broker runs. Layer: composition root.

Invariant: a configuration is taken on as a whole or not at all. Everything that could be refused is
tried before the first change: the file is checked, all it declares is made in a broker of its own
that nobody sees, and what is there already is compared.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.auth.logins import guard_of
from broker.auth.mechanisms import Credentials, build_mechanisms
from broker.auth.passwords import PASSWORD_HASHING
from broker.auth.users import configure_users
from broker.config.problems import ConfigProblems
from broker.core.exchange_commands import BindingRequest, delete_exchange, unbind
from broker.core.policy_rules import compile_pattern
from broker.core.protection import Protected
from broker.core.queue_commands import delete_queue
from broker.core.user_commands import clear_permissions, delete_user
from broker.errors import BrokerError, ConfigError
from broker.logs import Log as EventLog
from broker.node_state import state_of, without_spent_defaults
from broker.reload_plan import (
    ADD,
    CHANGE,
    ORPHAN,
    RESTART,
    STAYS,
    Plan,
    find_orphans,
    make_plan,
    named_in,
)
from broker.topology import apply_topology, check_topology

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.config.schema import AlarmsConfig, Config, VHostConfig
    from broker.core.node import Node
    from broker.core.settings import NodeSettings
    from broker.core.vhost import VirtualHost
    from broker.net.pump import Pump

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["Outcome", "Reloader"]

SAFE_WAIT_S: Final = 30.0


class Outcome(NamedTuple):
    """What came of it.

    Attributes:
        plan: everything that differs.
        is_applied: whether the configuration is in force.
        problems: why it is not; one line each.
        pruned: what was removed, by key.

    """

    plan: Plan
    is_applied: bool
    problems: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()


class Surroundings(NamedTuple):
    """What of a running broker takes on a configuration.

    Attributes:
        node: the core.
        pump: drives it.
        log: told what happens; an EventLog takes on the configuration of the log.
        set_alarms: gives the alarms other limits.
        save: waits until users, rights and the list of virtual hosts are on the disk.
        settings_of: what a configuration means to the core.
        try_out: makes everything a configuration declares in a broker that nobody sees.
        set_security: has the certificates read anew, as a configuration names them.

    """

    node: Node
    pump: Pump
    log: Log
    set_alarms: Callable[[AlarmsConfig], None]
    save: Callable[[], Awaitable[None]]
    settings_of: Callable[[Config], NodeSettings]
    try_out: Callable[[Config], None]
    set_security: Callable[[Config], None]


class Reloader:
    """Reloads, one at a time.

    Args:
        around: the running broker.
        config: in force.
        load: reads the file again, as it was read at the start.

    """

    def __init__(
        self, around: Surroundings, config: Config, load: Callable[[], Config] | None
    ) -> None:
        self._around = around
        self.config = config
        # Read for the reload that is under way: as it is in the file, and without what is spent.
        self._new = config
        self._wanted = config
        # What the file has named and names no longer, for as long as it is there.
        self._earlier: tuple[Config, ...] = ()
        self._load = load
        self._turn = asyncio.Lock()

    @property
    def can_reload(self) -> bool:
        """Whether there is a file."""
        return self._load is not None

    async def reload(self, *, prunes: bool = False, is_dry: bool = False) -> Outcome:
        """Read the file again and take it on.

        Args:
            prunes: remove what the file no longer names, with all that is in it.
            is_dry: only say what would happen.

        """
        async with self._turn:
            outcome = await self._check(prunes=prunes)
            if outcome.is_applied and not is_dry:
                outcome = await self._apply(outcome, prunes=prunes)
            elif outcome.is_applied:
                outcome = outcome._replace(is_applied=False)

        self._tell(outcome, is_dry=is_dry)
        return outcome

    def _read(self, load: Callable[[], Config]) -> Config:
        """Runs in another thread: a large file takes its time."""
        config = load()
        self._around.try_out(config)
        return config

    async def _check(self, *, prunes: bool) -> Outcome:
        around = self._around
        nothing = Plan(())
        if self._load is None:
            return Outcome(nothing, False, ("the broker was started without a file",))

        try:
            self._new = await asyncio.to_thread(self._read, self._load)
            around.pump.advance()
            self._wanted = without_spent_defaults(self._new, state_of(around.node))
            check_topology(self._wanted, around.node)
            await self._search_ahead()
        except ConfigProblems as problems:
            return Outcome(nothing, False, tuple(map(str, problems.problems)))
        except BrokerError as problem:
            return Outcome(nothing, False, (str(problem),))

        old = without_spent_defaults(self.config, state_of(around.node))
        orphans, _ = find_orphans(self._named(), self._new, around.node)
        plan = make_plan(old, self._wanted, around.node, orphans)
        pruned = tuple(one.key for one in orphans if one.text != STAYS) if prunes else ()
        return Outcome(plan, True, (), pruned)

    async def _search_ahead(self) -> None:
        """Find out a little at a time what policies are about, which are set in one go.

        Raises:
            ConfigError: it takes too long.

        """
        from broker.management.errors import BadRequest
        from broker.management.searching import names_in, search_ahead

        for entry in self._wanted.vhosts:
            vhost = self._around.node.vhosts.get(entry.name)
            names = [] if vhost is None else names_in(vhost)
            for policy in (*entry.policies, *entry.operator_policies):
                try:
                    await search_ahead(compile_pattern(policy.pattern), names)
                except BadRequest as fault:
                    key = f"vhosts.{entry.name}.policies.{policy.name}"
                    raise ConfigError(f"{key}: {fault.reason}") from None

    def _named(self) -> tuple[Config, ...]:
        return (*self._earlier, named_in(self.config))

    async def _apply(self, outcome: Outcome, *, prunes: bool) -> Outcome:
        around = self._around
        new = self._new
        if isinstance(around.log, EventLog):
            try:
                around.log.configure(new.log)
            except BrokerError as problem:
                return outcome._replace(is_applied=False, problems=(str(problem),), pruned=())

        faults: list[Exception] = []

        def act() -> None:
            try:
                self._take_on(new)
                if prunes:
                    for old in self._named():
                        _Pruning(around.node).run(old, new)
            except Exception as fault:
                faults.append(fault)

        around.pump.run(act)
        if faults:
            # All of this was tried out: whatever it is now, it is a bug.
            raise faults[0]

        if new.alarms != self.config.alarms:
            around.set_alarms(new.alarms)

        around.set_security(new)

        _, self._earlier = find_orphans(self._named(), new, around.node)
        self.config = new
        await self._settle()
        return outcome

    def _take_on(self, new: Config) -> None:
        around = self._around
        node = around.node
        before = node.settings
        node.settings = around.settings_of(new)._replace(
            node_name=before.node_name,
            topic_hash_words_max=before.topic_hash_words_max,
            has_event_exchange=before.has_event_exchange,
            has_log_exchange=before.has_log_exchange,
        )
        anonymous = Credentials(new.auth.anonymous_user, new.auth.anonymous_password.reveal())
        node.mechanisms = build_mechanisms(new.auth.mechanisms, anonymous=anonymous)
        node.users.loopback_only_users = frozenset(new.auth.loopback_only_users)
        node.users.hashing_algorithm = PASSWORD_HASHING[new.auth.password_hashing]
        if new.auth.failed_logins != self.config.auth.failed_logins:
            node.logins.guard = guard_of(new.auth.failed_logins)

        wanted = self._wanted
        for entry in wanted.vhosts:
            node.add_vhost(entry.name)

        configure_users(node.users, wanted, random_bytes=os.urandom)
        apply_topology(wanted, node)
        node.rights_changed()
        node.state_changed()

    async def _settle(self) -> None:
        """Return when what was changed is as safe as it is to be."""
        around = self._around
        loop = asyncio.get_running_loop()
        waits: list[asyncio.Future[None]] = []

        def ask() -> None:
            for vhost in around.node.vhosts.values():
                if vhost.journal is not None:
                    safe: asyncio.Future[None] = loop.create_future()
                    waits.append(safe)
                    vhost.journal.when_safe(partial(_finish, safe))

        around.pump.run(ask)
        async with asyncio.timeout(SAFE_WAIT_S):
            if waits:
                await asyncio.gather(*waits)

            await around.save()

    def _tell(self, outcome: Outcome, *, is_dry: bool) -> None:
        log = self._around.log
        path = self.config.origin.path
        if outcome.problems:
            for problem in outcome.problems:
                log("error", "config.refused", {"config": path, "problem": problem})

            return

        for change in outcome.plan.changes:
            is_gone = change.key in outcome.pruned and change.action == ORPHAN
            level, event = _EVENTS[change.action] if not is_gone else ("info", "config.pruned")
            fields: dict[str, object] = {"key": change.key}
            if change.text:
                fields["what"] = change.text

            log(level, event, fields)

        totals: dict[str, object] = {"config": path, "changes": len(outcome.plan.changes)}
        log("info", "config.planned" if is_dry else "config.reloaded", totals)


_EVENTS: Final = {
    CHANGE: ("info", "config.changed"),
    ADD: ("info", "config.added"),
    RESTART: ("warning", "config.needs_restart"),
    ORPHAN: ("warning", "config.orphan"),
}


def _finish(safe: asyncio.Future[None]) -> None:
    if not safe.done():
        safe.set_result(None)


class _Pruning:
    """Removes what one configuration has named and another one does not."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def run(self, old: Config, new: Config) -> None:
        node = self._node
        entries = {vhost.name: vhost for vhost in new.vhosts}
        for before in old.vhosts:
            vhost = node.vhosts.get(before.name)
            if vhost is None:
                continue

            if before.name not in entries:
                with suppress(Protected):
                    node.delete_vhost(before.name)
            else:
                self._prune_in(vhost, before, entries[before.name])

        named = {user.name for user in new.users}
        for user in old.users:
            if user.name not in named and user.name in node.users.users:
                with suppress(Protected):
                    delete_user(node, user.name, by="")

    def _prune_in(self, vhost: VirtualHost, before: VHostConfig, after: VHostConfig) -> None:
        node = self._node
        actor = node.own_actor(vhost)
        allowed = {one.user for one in after.permissions}
        for permission in before.permissions:
            if permission.user not in allowed and permission.user in node.users.users:
                with suppress(Protected):
                    clear_permissions(node, permission.user, vhost=vhost.name, by="")

        for binding in before.bindings:
            if binding not in after.bindings:
                is_queue = binding.destination_type == "queue"
                request = BindingRequest(
                    binding.source,
                    binding.destination,
                    is_queue,
                    binding.routing_key,
                    binding.arguments,
                )
                unbind(vhost, actor, request)

        for name in _gone(before, after, "queues"):
            if name in vhost.queues:
                delete_queue(vhost, actor, name, if_unused=False, if_empty=False)

        for name in _gone(before, after, "exchanges"):
            if name in vhost.exchanges:
                delete_exchange(vhost, actor, name, if_unused=False)

        for name in _gone(before, after, "policies"):
            vhost.clear_policy(name)

        for name in _gone(before, after, "operator_policies"):
            vhost.clear_policy(name, is_operator=True)


def _gone(before: VHostConfig, after: VHostConfig, section: str) -> list[str]:
    named = {one.name for one in getattr(after, section)}
    return [one.name for one in getattr(before, section) if one.name not in named]
