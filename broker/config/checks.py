"""What only shows when values are held against each other (configuration layer).

Invariant: values that are damaged already are left out, so one slip makes one problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.auth.passwords import parse_password_hash
from broker.config import shapes
from broker.config.schema import PermissionConfig
from broker.config.tls_checks import check_tls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.config.problems import Keys
    from broker.config.schema import (
        AMQPListenerConfig,
        Config,
        DatagramListenerConfig,
        HTTPListenerConfig,
        MetricsListenerConfig,
        UserConfig,
        VHostConfig,
    )
    from broker.config.tree import Report

    _Listener = (
        AMQPListenerConfig | HTTPListenerConfig | MetricsListenerConfig | DatagramListenerConfig
    )

__all__ = ["check", "grant_defaults"]

_PREDECLARED: Final = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
}
"""Exchanges that each virtual host is born with (rule E-01)."""

_HINTS_MAX: Final = 20
"""Problems that say what was probably meant; to find it among thousands of names takes long."""

_LOOPBACK_BINDS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERYTHING: Final = ".*"


def grant_defaults(config: Config, report: Report) -> Config:
    """Fill in the permissions nobody wrote.

    A configuration without virtual hosts lets all its users do everything in ``/``. In a virtual
    host without permissions only administrators may: to forget them must not open it to all.
    """
    has_vhosts = ("vhosts",) in report.places
    vhosts = []
    for vhost in config.vhosts:
        if ("vhosts", vhost.name, "permissions") in report.places:
            vhosts.append(vhost)
            continue

        granted = tuple(
            PermissionConfig(user.name, _EVERYTHING, _EVERYTHING, _EVERYTHING)
            for user in config.users
            if not has_vhosts or "administrator" in user.tags
        )
        vhosts.append(vhost._replace(permissions=granted))

    return config._replace(vhosts=tuple(vhosts))


def check(config: Config, report: Report) -> None:
    """Report dangling references, clashes and contradictions; warn of likely ones."""
    _check_listeners(config, report)
    check_tls(config, report)
    _check_users(config, report)
    _check_storage(config, report)
    for vhost in config.vhosts:
        _check_permissions(vhost, config, report)
        _check_bindings(vhost, report)
        _warn_of_dead_ends(vhost, report)

    _warn_of_users(config, report)


# Listeners


class _Claim(NamedTuple):
    """An address that something listens on."""

    keys: Keys
    bind: str
    port: int


def _check_listeners(config: Config, report: Report) -> None:
    _check_claims(_tcp_claims(config, report), report)
    _check_claims(_claims(("listeners", "datagram"), config.listeners.datagram), report)


def _tcp_claims(config: Config, report: Report) -> list[_Claim]:
    """Who wants which port. Where HTTP is served by default, a port that is taken does no harm."""
    claims = _claims(("listeners", "amqp"), config.listeners.amqp)
    claims += _claims(("listeners", "amqps"), config.listeners.amqps)
    management: Keys = ("management", "listeners")
    if config.management.is_enabled and management in report.places:
        claims += _claims(management, config.management.listeners)

    metrics: Keys = ("metrics", "prometheus", "listeners")
    if config.metrics.prometheus.is_enabled and metrics in report.places:
        claims += _claims(metrics, config.metrics.prometheus.listeners)

    return claims


def _claims(section: Keys, listeners: Sequence[_Listener]) -> list[_Claim]:
    return [
        _Claim((*section, str(index)), one.bind, one.port) for index, one in enumerate(listeners)
    ]


def _check_claims(claims: list[_Claim], report: Report) -> None:
    for place, claim in enumerate(claims):
        port_keys = (*claim.keys, "port")
        if not claim.port or not claim.bind or not report.is_sound(port_keys):
            continue

        for earlier in claims[:place]:
            if earlier.port == claim.port and _overlaps(earlier.bind, claim.bind):
                _complain_of_port(claim, earlier, report)
                break


def _complain_of_port(claim: _Claim, earlier: _Claim, report: Report) -> None:
    port_keys = (*claim.keys, "port")
    report.add_at(
        port_keys if port_keys in report.places else claim.keys,
        f"{claim.bind} port {claim.port} is taken by {'.'.join(earlier.keys)} ({earlier.bind})"
        " already - choose another port",
    )


def _overlaps(one: str, other: str) -> bool:
    return bool(_addresses(one) & _addresses(other))


def _addresses(bind: str) -> set[str]:
    # The wildcards stand for the addresses that are sure to be among theirs.
    return {
        "localhost": {"127.0.0.1", "::1"},
        "0.0.0.0": {"127.0.0.1", "0.0.0.0"},  # noqa: S104
        "::": {"::1", "::"},
    }.get(bind, {bind})


# Users


def _check_users(config: Config, report: Report) -> None:
    first: dict[str, int] = {}
    for index, user in enumerate(config.users):
        keys: Keys = ("users", str(index))
        if not user.name or not report.is_sound(keys):
            continue

        if user.name in first:
            report.add_at(
                (*keys, "name"),
                f"the user {user.name!r} is there twice, first as users.{first[user.name]}"
                " - keep one of them",
            )

        first.setdefault(user.name, index)
        _check_password(user, keys, report)

    keys = ("auth", "anonymous_user")
    wanted = config.auth.anonymous_user
    is_asked = keys in report.places and "ANONYMOUS" in config.auth.mechanisms
    if is_asked and _has_all_users(config, report) and wanted not in first:
        report.add_at(keys, f"there is no user {wanted!r}{_near(wanted, first, report)}")


def _check_password(user: UserConfig, keys: Keys, report: Report) -> None:
    given = [
        key
        for key in ("password", "password_file", "password_hash")
        if (*keys, key) in report.places
    ]
    if len(given) > 1:
        report.add_at(
            (*keys, given[1]),
            f"{' and '.join(given)} are both there - keep one: a user has one password",
        )
        return

    is_read = all(report.is_sound((*keys, key)) for key in given)
    if is_read and user.password is not None and not user.password.reveal():
        why = "its file is empty" if user.password_file else "it is blank"
        report.add_at(
            (*keys, given[0]),
            f"{why}, so nobody could log in - set it, or leave the key out to bar the user",
        )

    if user.password_hash is not None and report.is_sound((*keys, "password_hash")):
        try:
            parse_password_hash(user.password_hash.reveal(), user.hashing_algorithm)
        except ValueError as error:
            report.add_at((*keys, "password_hash"), f"it does not fit: {error}")
    elif (*keys, "hashing_algorithm") in report.places and "password_hash" not in given:
        report.add_at(
            (*keys, "hashing_algorithm"),
            "it says how password_hash was made, and there is no password_hash",
        )


def _warn_of_users(config: Config, report: Report) -> None:
    allowed = {permission.user for vhost in config.vhosts for permission in vhost.permissions}
    listeners = (*config.listeners.amqp, *config.listeners.amqps)
    is_open = any(entry.bind not in _LOOPBACK_BINDS for entry in listeners)
    for index, user in enumerate(config.users):
        keys: Keys = ("users", str(index))
        if user.name not in allowed:
            report.warn_at(keys, f"the user {user.name!r} has no permissions in any virtual host")

        has_password = user.password is not None or user.password_hash is not None
        if not has_password and "EXTERNAL" not in config.auth.mechanisms:
            report.warn_at(keys, f"the user {user.name!r} has no password and cannot log in")

        is_default = user.password is not None and user.password.reveal() == user.name == "guest"
        if is_default and is_open and user.name not in config.auth.loopback_only_users:
            report.warn_at(
                keys, "anybody on the network can log in as guest with its well-known password"
            )


# Storage


def _check_storage(config: Config, report: Report) -> None:
    if config.storage.memory_only and config.storage.data_dir is not None:
        report.add_at(
            ("storage", "memory_only"),
            "nothing is kept, and data_dir says where to keep it - remove one of the two",
        )


# Virtual hosts


def _check_permissions(vhost: VHostConfig, config: Config, report: Report) -> None:
    if not _has_all_users(config, report):
        return

    users = {user.name for user in config.users}
    at: Keys = ("vhosts", vhost.name)
    for permission in vhost.permissions:
        name = permission.user
        keys = (*at, "permissions", name)
        if name not in users and report.is_sound(keys):
            report.add_at(keys, f"there is no user {name!r}{_near(name, users, report)}")

    types = {exchange.name: exchange.type for exchange in vhost.exchanges}
    told: set[str] = set()
    for topic in vhost.topic_permissions:
        keys = (*at, "topic_permissions", topic.user)
        if topic.user not in users and topic.user not in told and report.is_sound(keys):
            told.add(topic.user)
            report.add_at(
                keys, f"there is no user {topic.user!r}{_near(topic.user, users, report)}"
            )

        keys = (*keys, topic.exchange)
        kind = types.get(topic.exchange) or _PREDECLARED.get(topic.exchange)
        if kind not in {None, "topic"}:
            report.add_at(
                keys, f"the exchange is of type {kind}: topic permissions are for type topic only"
            )
        elif kind is None:
            hint = _near(topic.exchange, [*types, *_PREDECLARED], report)
            report.warn_at(keys, f"there is no exchange {topic.exchange!r} in this file{hint}")


def _check_bindings(vhost: VHostConfig, report: Report) -> None:
    exchanges = _Known("exchange", vhost, [exchange.name for exchange in vhost.exchanges], report)
    queues = _Known("queue", vhost, [queue.name for queue in vhost.queues], report)
    for index, binding in enumerate(vhost.bindings):
        keys: Keys = ("vhosts", vhost.name, "bindings", str(index))
        exchanges.require(binding.source, (*keys, "source"))
        if not report.is_sound((*keys, "type")):
            continue

        if binding.destination_type == "queue":
            queues.require(binding.destination, (*keys, "destination"), other=exchanges)
        else:
            exchanges.require(binding.destination, (*keys, "destination"), other=queues)


class _Known:
    """The exchanges or queues a virtual host has."""

    __slots__ = ("_is_complete", "_kind", "_names", "_report")

    def __init__(self, kind: str, vhost: VHostConfig, names: list[str], report: Report) -> None:
        self._kind = kind
        self._names = set(names)
        self._report = report
        self._is_complete = report.is_sound(("vhosts", vhost.name, f"{kind}s"))
        if kind == "exchange":
            self._names.update(_PREDECLARED)

    def require(self, name: str, keys: Keys, other: _Known | None = None) -> None:
        """Report a name that is not there.

        Args:
            name: what should be there.
            keys: where it was asked for.
            other: what may have been meant, if it knows the name.

        """
        if name in self._names or not self._is_complete or not self._report.is_sound(keys):
            return

        hint = _near(name, self._names, self._report)
        if other is not None and name in other._names:
            article = "an" if other._kind == "exchange" else "a"
            hint = f" - {article} {other._kind} has that name: write type: {other._kind}"

        where = f"in the virtual host {keys[1]!r}"
        self._report.add_at(keys, f"there is no {self._kind} {name!r} {where}{hint}")


def _warn_of_dead_ends(vhost: VHostConfig, report: Report) -> None:
    # A program may declare the exchange later; more often it is a slip and messages are lost.
    names = {exchange.name for exchange in vhost.exchanges} | set(_PREDECLARED) | {""}
    at: Keys = ("vhosts", vhost.name)
    asked: list[tuple[Keys, object]] = []
    for queue in vhost.queues:
        field = queue.arguments.get("x-dead-letter-exchange")
        asked.append(((*at, "queues", queue.name, "arguments"), field and field.value))

    for exchange in vhost.exchanges:
        field = exchange.arguments.get("alternate-exchange")
        asked.append(((*at, "exchanges", exchange.name, "arguments"), field and field.value))

    for policy in vhost.policies:
        keys = (*at, "policies", policy.name, "definition")
        asked.extend(
            (keys, policy.definition.get(key))
            for key in ("dead-letter-exchange", "alternate-exchange")
        )

    for keys, name in asked:
        if isinstance(name, str) and name not in names:
            report.warn_at(
                keys, f"there is no exchange {name!r} in this file{_near(name, names, report)}"
            )


def _has_all_users(config: Config, report: Report) -> bool:
    return report.is_sound(("users",)) and all(user.name for user in config.users)


def _near(name: str, names: Iterable[str], report: Report) -> str:
    told = report.problems_count + len(report.warnings)
    return shapes.near(name, names) if told < _HINTS_MAX else ""
