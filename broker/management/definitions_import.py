"""Definitions in (management layer; rules DE-01..DE-12).

Everything is read and checked before anything is changed, as far as that can be said of one entry
alone; what is wrong is told with its place in the document. What is changed then is changed in the
order of rule DE-09, a few things at a time, and stays changed if a later one is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from broker.auth.passwords import (
    ARGON2ID,
    HASHING_ALGORITHM_DEFAULT,
    OWN_HASH,
    new_password_hash,
)
from broker.auth.permissions import Permission, TopicPermission
from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange
from broker.core.limit_commands import checked_user_limits, set_user_limits, set_vhost_limits
from broker.core.parameter_commands import Parameter, set_global_parameter
from broker.core.policy import PolicyInvalid, policy_from_plain
from broker.core.protection import (
    Protected,
    check_rights_stay,
    check_topic_rights_stay,
    check_user_stays,
)
from broker.core.queue_commands import QueueRequest, declare_queue
from broker.core.user_commands import (
    TopicRights,
    put_user,
    set_permissions,
    set_topic_permissions,
)
from broker.core.vhost_commands import set_vhost_metadata
from broker.errors import AMQPError, BrokerError
from broker.management.arguments import (
    arguments_of,
    boolean_of,
    object_of,
    rights_in,
    tags_of,
    text_of,
)
from broker.management.errors import BadRequest
from broker.management.json_text import read_json
from broker.management.parameters import apply_parameter, policy_of
from broker.management.searching import names_in, search_ahead
from broker.management.users import password_hash_in
from broker.management.vhosts import metadata_in
from broker.wire.tables import Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.node import Node
    from broker.core.policy import Policy
    from broker.core.user_commands import Rights
    from broker.core.vhost import VirtualHost
    from broker.management.json_text import JSON
    from broker.management.site import Runner

__all__ = ["ImportTarget", "Importer", "read_document"]

STEPS_PER_TURN: Final = 64
TYPE_ARGUMENT: Final = "x-queue-type"
SYSTEM_PREFIX: Final = "amq."
MD5: Final = "rabbit_password_hashing_md5"
MD5_VERSIONS: Final = ("3.0.", "3.1.", "3.2.", "3.3.", "3.4.", "3.5.")
"""RabbitMQ that exported hashes without saying which: they are of MD5."""

LEAVES_OUT_INTERNAL: Final = "4."
"""RabbitMQ that does not export internal exchanges, nor says of an exchange whether it is one."""

PROBLEMS_MAX: Final = 20
"""Problems that are told at once."""

T = TypeVar("T")


class ImportTarget(Protocol):
    """The broker that definitions are for: a site is one."""

    @property
    def node(self) -> Node: ...

    @property
    def runner(self) -> Runner: ...

    async def change(self, command: Callable[[], T], vhost: VirtualHost | None = None) -> T: ...


class _Step(NamedTuple):
    """One change, and where in the document it stands."""

    place: str
    vhost: str | None
    """Whose log is told of it; None for users, rights and virtual hosts."""

    apply: Callable[[], None]


def read_document(raw: bytes) -> JSON:
    """Read a definitions file; nothing at all is the empty one.

    Raises:
        BadRequest: it is no JSON object.

    """
    text = raw.removeprefix(b"\xef\xbb\xbf").strip()
    if not text:
        return {}

    try:
        document = read_json(text)
    except (ValueError, RecursionError):
        raise BadRequest("failed_to_parse_json") from None

    if not isinstance(document, dict):
        raise BadRequest("not_json")

    return document


def _leaves_out_internal(document: JSON) -> bool:
    """Whether a document may name bindings of internal exchanges, and not these themselves.

    RabbitMQ: 4.3 exports such, and imports of them what can be imported.
    """
    version = document.get("rabbitmq_version")
    exchanges = document.get("exchanges")
    return (
        isinstance(version, str)
        and version.startswith(LEAVES_OUT_INTERNAL)
        and isinstance(exchanges, list)
        and not any("internal" in entry for entry in exchanges if isinstance(entry, dict))
    )


class Importer:
    """Makes a broker what a document says, without taking anything away.

    Args:
        site: the broker.
        document: as read.
        vhost: everything goes there; None where the document names virtual hosts.
        by: the administrator.

    """

    def __init__(
        self, site: ImportTarget, document: JSON, vhost: VirtualHost | None, *, by: str
    ) -> None:
        self._site = site
        self._node = site.node
        self._document = document
        self._vhost = vhost
        self._by = by
        self._steps: list[_Step] = []
        self._problems: list[str] = []
        self._leaves_out_internal = _leaves_out_internal(document)
        self._new_vhosts: set[str] = set()
        self._new_users: set[str] = set()
        self._new_queues: dict[str, set[str]] = {}
        # With their places in the document and their virtual hosts.
        self._policies: list[tuple[str, str, Policy]] = []

    async def run(self) -> None:
        """Check, then apply.

        Raises:
            BadRequest: something is wrong; what was applied before it remains.
            TimeoutError: it is done, and not yet safe.

        """
        await self._read_all()
        await self._search_ahead()
        if self._problems:
            shown = self._problems[:PROBLEMS_MAX]
            more = len(self._problems) - len(shown)
            raise BadRequest("\n".join(shown) + (f"\nand {more} more" if more else ""))

        try:
            for at in range(0, len(self._steps), STEPS_PER_TURN):
                self._apply(self._steps[at : at + STEPS_PER_TURN])
                await asyncio.sleep(0)
        finally:
            await self._make_safe()

    async def _search_ahead(self) -> None:
        """What policies are about is found out a little at a time, before they are set."""
        for at, name, policy in self._policies:
            vhost = self._node.vhosts.get(name)
            names = set(self._new_queues.get(name, ()))
            if vhost is not None:
                names.update(names_in(vhost))

            try:
                await search_ahead(policy.regex, names)
            except BadRequest as fault:
                self._problems.append(_told(at, fault))

    def _apply(self, steps: list[_Step]) -> None:
        faults: list[tuple[_Step, Exception]] = []

        def apply() -> None:
            for step in steps:
                try:
                    step.apply()
                except (BrokerError, ValueError) as fault:
                    faults.append((step, fault))
                    return

        self._site.runner.run(apply)
        if faults:
            step, fault = faults[0]
            raise BadRequest(_told(step.place, fault))

    async def _make_safe(self) -> None:
        """Wait until all that was changed is on the disk."""
        for name in {step.vhost for step in self._steps if step.vhost is not None}:
            vhost = self._node.vhosts.get(name)
            if vhost is not None:
                await self._site.change(_nothing, vhost)

        await self._site.change(_nothing)

    # -- reading

    async def _read_all(self) -> None:
        """Rule DE-09: the order."""
        if self._vhost is None:
            await self._hash_passwords()
            self._read("users", self._read_user)
            self._read("vhosts", self._read_vhost)
            self._read("permissions", self._read_permission)

        self._read("exchanges", self._read_exchange)
        await asyncio.sleep(0)
        if self._vhost is None:
            self._read("topic_permissions", self._read_topic_permission)
            self._read("global_parameters", self._read_global_parameter)

        self._read("policies", self._read_policy)
        self._read("parameters", self._read_parameter)
        await asyncio.sleep(0)
        self._read("queues", self._read_queue)
        await asyncio.sleep(0)
        self._check_queue_limits()
        self._read("bindings", self._read_binding)
        await asyncio.sleep(0)

    async def _hash_passwords(self) -> None:
        """Passwords that stand there in full are hashed in a thread: it takes long by intent."""
        users = self._document.get("users", [])
        if not isinstance(users, list):
            return

        algorithm = self._node.users.hashing_algorithm
        for place, entry in enumerate(users):
            password = entry.get("password") if isinstance(entry, dict) else None
            if not password or not isinstance(password, str) or "password_hash" in entry:
                continue

            made = await asyncio.to_thread(
                new_password_hash, password, algorithm, self._node.random_bytes
            )
            hashed = {"password_hash": made.to_text(), "hashing_algorithm": algorithm}
            users[place] = {**entry, "password": None, **hashed}

    def _read(self, section: str, read: Callable[[JSON, str], None]) -> None:
        entries = self._document.get(section, [])
        if not isinstance(entries, list):
            self._problems.append(f"{section}: expected a list")
            return

        for place, entry in enumerate(entries):
            at = f"{section}[{place}]"
            if not isinstance(entry, dict):
                self._problems.append(f"{at}: expected an object")
                continue

            try:
                read(entry, at)
            except (BadRequest, PolicyInvalid, Protected, ValueError) as fault:
                self._problems.append(_told(at, fault))

    def _add(self, at: str, vhost: str | None, apply: Callable[[], None]) -> None:
        self._steps.append(_Step(at, vhost, apply))

    def _place_of(self, entry: JSON) -> str:
        """The virtual host that an entry is for.

        Raises:
            BadRequest: it names none (rule DE-10), or one that is not there.

        """
        if self._vhost is not None:
            return self._vhost.name

        if "vhost" not in entry:
            raise BadRequest(
                "it has no vhost: a file of one virtual host is imported into a virtual host,"
                " at /api/definitions/<vhost>"
            )

        name = text_of(entry, "vhost")
        if name not in self._node.vhosts and name not in self._new_vhosts:
            raise BadRequest(f'Please create virtual host "{name}" prior to importing definitions.')

        return name

    def _user_of(self, entry: JSON) -> str:
        name = _required(entry, "user")
        if name not in self._node.users.users and name not in self._new_users:
            raise BadRequest(f"there is no user '{name}'")

        return name

    # -- users, rights, virtual hosts

    def _read_user(self, entry: JSON, at: str) -> None:
        name = _required(entry, "name")
        own_hash = text_of(entry, OWN_HASH)
        if own_hash and not entry.get("password_hash"):
            entry = {**entry, "password_hash": own_hash, "hashing_algorithm": ARGON2ID}

        version = self._document.get("rabbit_version", self._document.get("rabbitmq_version"))
        is_old = isinstance(version, str) and version.startswith(MD5_VERSIONS)
        algorithm = MD5 if is_old else HASHING_ALGORITHM_DEFAULT
        node = self._node
        wanted = node.users.hashing_algorithm
        password_hash = password_hash_in(entry, node.random_bytes, wanted, algorithm=algorithm)
        tags = tags_of(entry.get("tags", []))
        known = node.users.users.get(name)
        check_user_stays(known, password_hash, tags)
        limits = object_of(entry, "limits")
        checked_user_limits(known, limits)
        granted = {
            vhost: rights_in(value) for vhost, value in object_of(entry, "permissions").items()
        }
        is_new = known is None
        by = self._by
        self._new_users.add(name)

        def apply() -> None:
            put_user(node, name, password_hash, tags=tags, by=by)
            if limits:
                set_user_limits(node, name, limits, by=by, is_new=is_new)

        self._add(at, None, apply)
        if is_new and granted:
            self._grant_later(name, granted)

    def _grant_later(self, name: str, granted: dict[str, Rights]) -> None:
        """The virtual hosts come after the users."""
        rows = self._document.setdefault("permissions", [])
        if isinstance(rows, list):
            rows += [
                {"user": name, "vhost": vhost, **rights._asdict()}
                for vhost, rights in granted.items()
            ]

    def _read_vhost(self, entry: JSON, at: str) -> None:
        name = _required(entry, "name")
        node = self._node
        existing = node.vhosts.get(name)
        said = {**entry, **object_of(entry, "metadata")}
        metadata = metadata_in(
            said, is_protected=existing is not None and existing.metadata.is_protected
        )
        if existing is not None and existing.metadata.is_protected:
            # A file of old must not take it away unseen; there is a request for that.
            metadata = metadata._replace(is_protected=True)

        is_described = "metadata" in entry or "description" in entry or "tags" in entry
        limits = object_of(entry, "limits")
        by = self._by
        self._new_vhosts.add(name)

        def apply() -> None:
            node.add_vhost(name, by=by)
            if is_described:
                set_vhost_metadata(node, name, metadata, by=by)

            if limits:
                set_vhost_limits(node, name, limits, by=by)

        self._add(at, None, apply)

    def _read_permission(self, entry: JSON, at: str) -> None:
        node = self._node
        user = self._user_of(entry)
        vhost = self._place_of(entry)
        rights = rights_in(entry)
        Permission(*rights)
        check_rights_stay(node.users.users.get(user), vhost, rights)
        by = self._by
        self._add(at, None, lambda: set_permissions(node, user, rights, vhost=vhost, by=by))

    def _read_topic_permission(self, entry: JSON, at: str) -> None:
        node = self._node
        user = self._user_of(entry)
        vhost = self._place_of(entry)
        rights = TopicRights(
            text_of(entry, "exchange"), text_of(entry, "write"), text_of(entry, "read")
        )
        check_topic_rights_stay(
            node.users.users.get(user), vhost, rights.exchange, (rights.write, rights.read)
        )
        variables = {"username": user, "vhost": vhost}
        TopicPermission(rights.exchange, write=rights.write, read=rights.read, variables=variables)
        by = self._by
        self._add(at, None, lambda: set_topic_permissions(node, user, rights, vhost=vhost, by=by))

    def _read_global_parameter(self, entry: JSON, at: str) -> None:
        node = self._node
        name = _required(entry, "name")
        value = entry.get("value")
        by = self._by
        self._add(at, None, lambda: set_global_parameter(node, name, value, by=by))

    # -- what is in virtual hosts

    def _read_policy(self, entry: JSON, at: str) -> None:
        vhost = self._place_of(entry)
        policy = policy_from_plain(_required(entry, "name"), entry)
        self._policies.append((at, vhost, policy))
        node, by = self._node, self._by
        self._add(at, vhost, lambda: node.vhosts[vhost].set_policy(policy, by=by))

    def _read_parameter(self, entry: JSON, at: str) -> None:
        vhost = self._place_of(entry)
        parameter = Parameter(
            vhost, _required(entry, "component"), _required(entry, "name"), entry.get("value")
        )
        policy = policy_of(parameter)
        if policy is not None:
            self._policies.append((at, vhost, policy))

        node = self._node
        by = self._by
        self._add(at, vhost, lambda: apply_parameter(node, parameter, policy, by=by))

    def _read_exchange(self, entry: JSON, at: str) -> None:
        vhost = self._place_of(entry)
        name = text_of(entry, "name")
        if not name or name.startswith(SYSTEM_PREFIX):
            # Rule DE-07: every virtual host has these.
            return

        settings = ExchangeSettings(
            name=name,
            type=text_of(entry, "type", default="direct"),
            durable=boolean_of(entry, "durable", default=True),
            auto_delete=boolean_of(entry, "auto_delete"),
            internal=boolean_of(entry, "internal"),
            arguments=arguments_of(entry),
        )
        node = self._node

        def apply() -> None:
            place = node.vhosts[vhost]
            if name not in place.exchanges:
                declare_exchange(place, node.own_actor(place), settings)

        self._add(at, vhost, apply)

    def _read_queue(self, entry: JSON, at: str) -> None:
        vhost = self._place_of(entry)
        name = _required(entry, "name")
        if name.startswith(SYSTEM_PREFIX):
            self._node.log("warning", "definitions.skipped", {"vhost": vhost, "queue": name})
            return

        arguments = arguments_of(entry)
        queue_type = text_of(entry, "type", default="classic")
        if queue_type != "classic" and TYPE_ARGUMENT not in arguments:
            arguments = {**arguments, TYPE_ARGUMENT: Field("S", queue_type)}

        request = QueueRequest(
            name=name,
            durable=boolean_of(entry, "durable", default=True),
            exclusive=False,
            auto_delete=boolean_of(entry, "auto_delete"),
            arguments=arguments,
        )
        node = self._node
        existing = node.vhosts.get(vhost)
        if existing is None or name not in existing.queues:
            self._new_queues.setdefault(vhost, set()).add(name)

        def apply() -> None:
            place = node.vhosts[vhost]
            if name not in place.queues:
                declare_queue(place, node.own_actor(place), request)

        self._add(at, vhost, apply)

    def _check_queue_limits(self) -> None:
        """Rule DE-12."""
        for name, added in self._new_queues.items():
            vhost = self._node.vhosts.get(name)
            if vhost is None or vhost.queues_max is None:
                continue

            if len(vhost.queues) + len(added) > vhost.queues_max:
                self._problems.append(
                    f"queues: {len(added)} more in vhost '{name}' are too many: its limit is"
                    f" {vhost.queues_max}, and there are {len(vhost.queues)}"
                )

    def _read_binding(self, entry: JSON, at: str) -> None:
        vhost = self._place_of(entry)
        kind = text_of(entry, "destination_type", default="queue")
        if kind not in ("queue", "exchange"):
            raise BadRequest("destination_type is queue or exchange")

        request = BindingRequest(
            source=text_of(entry, "source"),
            destination=_required(entry, "destination"),
            is_queue=kind == "queue",
            routing_key=text_of(entry, "routing_key"),
            arguments=arguments_of(entry),
        )
        if not request.source:
            # Each queue has that one by its name.
            return

        node = self._node
        exchanges = [request.source, *([] if request.is_queue else [request.destination])]

        def apply() -> None:
            place = node.vhosts[vhost]
            queue = request.destination
            if kind == "queue" and queue.startswith(SYSTEM_PREFIX) and queue not in place.queues:
                # The queue was skipped; so is what binds it.
                return

            missing = [name for name in exchanges if name not in place.exchanges]
            if missing and self._leaves_out_internal:
                skipped: dict[str, object] = {"vhost": vhost, "exchange": missing[0], "at": at}
                node.log("warning", "definitions.skipped", skipped)
                return

            bind(place, node.own_actor(place), request)

        self._add(at, vhost, apply)


def _nothing() -> None:
    """All is done; what is left is to wait until it is safe."""


def _required(entry: JSON, key: str) -> str:
    if not entry.get(key):
        raise BadRequest(f"{key} is missing")

    return text_of(entry, key)


def _told(place: str, fault: Exception) -> str:
    """What is wrong, and where."""
    if isinstance(fault, BadRequest):
        return f"{place}: {fault.reason}"

    if isinstance(fault, AMQPError):
        return f"{place}: {fault.name.lower()}: {fault.explanation}"

    if isinstance(fault, PolicyInvalid):
        return f"{place}: Validation failed\n\n{fault}\n"

    return f"{place}: {fault}"
