"""Users and their authentication (auth layer; rules C-25, C-32, C-36, PM-01..PM-32).

Invariant: every change that may alter a verdict raises ``User.generation``, so a channel may keep
verdicts as long as the generation stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.auth.passwords import (
    HASHING_ALGORITHM_DEFAULT,
    SALT_BYTES,
    PasswordHash,
    make_password_hash,
    parse_password_hash,
    verify_password,
)
from broker.auth.permissions import Permission, TopicPermission
from broker.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.config.schema import Config, UserConfig, VHostConfig

__all__ = ["AuthenticationError", "User", "UserStore", "configure_users"]

_DUMMY_HASH: Final = make_password_hash("nobody", b"\0" * SALT_BYTES)
"""Compared against when there is no such user, so that the answer takes as long (rule C-32)."""


class AuthenticationError(BrokerError):
    """The login is refused; the reason is for the log, never for the peer (rule C-32)."""

    def __init__(self, user: str, reason: str) -> None:
        super().__init__(reason)
        self.user = user
        self.reason = reason


class User:
    """One user (rule PM-01); permissions are changed through the store."""

    __slots__ = (
        "_permissions",
        "_topic_permissions",
        "channels_max",
        "connections_max",
        "generation",
        "name",
        "password_hash",
        "tags",
    )

    def __init__(self, name: str, password_hash: PasswordHash | None, tags: Iterable[str]) -> None:
        self.name: Final = name
        self.password_hash = password_hash
        self.tags: tuple[str, ...] = tuple(tags)
        self.connections_max: int | None = None
        self.channels_max: int | None = None
        self.generation = 0
        self._permissions: dict[str, Permission] = {}
        self._topic_permissions: dict[tuple[str, str], TopicPermission] = {}

    @property
    def is_impersonator(self) -> bool:
        """May publish with another's user-id (rule P-10)."""
        return "impersonator" in self.tags

    @property
    def permissions(self) -> dict[str, Permission]:
        """By virtual host; read only."""
        return self._permissions

    @property
    def topic_permissions(self) -> dict[tuple[str, str], TopicPermission]:
        """By virtual host and exchange; read only."""
        return self._topic_permissions

    def permission(self, vhost: str) -> Permission | None:
        """What the user may do there; None is no access at all (rule C-53)."""
        return self._permissions.get(vhost)

    def allows(self, operation: str, *, vhost: str, name: str) -> bool:
        """Tell whether ``configure``, ``write`` or ``read`` is allowed on that resource."""
        permission = self._permissions.get(vhost)
        return permission is not None and permission.allows(operation, name)

    def allows_topic(self, operation: str, *, vhost: str, exchange: str, routing_key: str) -> bool:
        """Rule PM-20: where nothing is said of an exchange, everything is allowed."""
        permission = self._topic_permissions.get((vhost, exchange))
        return permission is None or permission.allows(operation, routing_key)


class UserStore:
    """All users of a node."""

    __slots__ = ("hashing_algorithm", "loopback_only_users", "users")

    def __init__(
        self,
        *,
        loopback_only_users: Iterable[str] = (),
        hashing_algorithm: str = HASHING_ALGORITHM_DEFAULT,
    ) -> None:
        self.users: Final[dict[str, User]] = {}
        self.loopback_only_users = frozenset(loopback_only_users)
        # Of new passwords.
        self.hashing_algorithm = hashing_algorithm

    def add_user(
        self, name: str, password_hash: PasswordHash | None, *, tags: Iterable[str] = ()
    ) -> User:
        """Add a user; of one that exists, password and tags are replaced and the rest stays."""
        user = self.users.get(name)
        if user is None:
            user = self.users[name] = User(name, password_hash, tags)
            return user

        user.password_hash = password_hash
        user.tags = tuple(tags)
        user.generation += 1
        return user

    def delete_user(self, name: str) -> bool:
        """Forget a user; the caller closes the connections (rule PM-31)."""
        user = self.users.pop(name, None)
        if user is None:
            return False

        user._permissions.clear()
        user._topic_permissions.clear()
        user.generation += 1
        return True

    def set_permissions(
        self, name: str, *, vhost: str, configure: str, write: str, read: str
    ) -> None:
        """Set the patterns of a user in a virtual host.

        Raises:
            KeyError: there is no such user.
            ValueError: a pattern does not compile; nothing is changed.

        """
        user = self.users[name]
        user._permissions[vhost] = Permission(configure, write, read)
        user.generation += 1

    def clear_permissions(self, name: str, *, vhost: str) -> None:
        user = self.users[name]
        if user._permissions.pop(vhost, None) is not None:
            user.generation += 1

    def set_topic_permissions(
        self, name: str, *, vhost: str, exchange: str, write: str, read: str
    ) -> None:
        """Set the patterns of a user for a topic exchange; raises like set_permissions."""
        user = self.users[name]
        user._topic_permissions[vhost, exchange] = TopicPermission(
            exchange, write=write, read=read, variables={"username": name, "vhost": vhost}
        )
        user.generation += 1

    def clear_topic_permissions(
        self, name: str, *, vhost: str, exchange: str | None = None
    ) -> None:
        """Forget what was said of one exchange of the virtual host, or of all of them."""
        user = self.users[name]
        for key in list(user._topic_permissions):
            if key[0] == vhost and exchange in {None, key[1]}:
                del user._topic_permissions[key]
                user.generation += 1

    def forget_vhost(self, vhost: str) -> None:
        """Drop all that was allowed in a virtual host that is deleted."""
        for name in self.users:
            self.clear_permissions(name, vhost=vhost)
            self.clear_topic_permissions(name, vhost=vhost)

    def authenticate(self, name: str, password: str | None, *, is_loopback: bool) -> User:
        """Check a login.

        Args:
            name: as the peer gave it.
            password: None when the mechanism carried nothing that could be one.
            is_loopback: the peer's address is 127.0.0.0/8 or ::1 (rule C-36).

        Raises:
            AuthenticationError: with the reason for the log; the peer must not see it.

        """
        user = self.users.get(name)
        expected = None if user is None else user.password_hash
        # The comparison comes first in all cases: how long it takes tells nothing (rule C-32).
        is_right = verify_password(password or "", expected or _DUMMY_HASH)
        proven = expected if is_right else None
        return self.admit(name, password, is_loopback=is_loopback, proven=proven)

    def admit(
        self, name: str, password: str | None, *, is_loopback: bool, proven: PasswordHash | None
    ) -> User:
        """Let a user in whose password was compared.

        Args:
            name: as the peer gave it.
            password: likewise.
            is_loopback: as above.
            proven: the hash that the password turned out to be of; None where it was of none.

        Raises:
            AuthenticationError: with the reason for the log; the peer must not see it.

        """
        user = self.users.get(name)
        if user is None:
            raise AuthenticationError(name, "there is no such user")

        if user.password_hash is None:
            raise AuthenticationError(name, "the user has no password")

        if not password:
            raise AuthenticationError(name, "the password is blank")

        if proven is None:
            raise AuthenticationError(name, "the password is wrong")

        if proven != user.password_hash:
            raise AuthenticationError(name, "the password was changed meanwhile")

        self._check_place(name, is_loopback=is_loopback)
        return user

    def identify(self, name: str, *, is_loopback: bool) -> User:
        """Let in whom something else than a password vouches for (rule C-22).

        Raises:
            AuthenticationError: with the reason for the log; the peer must not see it.

        """
        user = self.users.get(name)
        if user is None:
            raise AuthenticationError(name, "there is no such user")

        self._check_place(name, is_loopback=is_loopback)
        return user

    def _check_place(self, name: str, *, is_loopback: bool) -> None:
        if name in self.loopback_only_users and not is_loopback:
            raise AuthenticationError(
                name, "the user may only log in from this machine (auth.loopback_only_users)"
            )


def configure_users(
    store: UserStore,
    config: Config,
    *,
    random_bytes: Callable[[int], bytes],
    on_overruled: Callable[[str, str], None] | None = None,
) -> None:
    """Put in the users a configuration names, with what they may do in its virtual hosts.

    Args:
        store: may hold users already. Those that are named become what the configuration says;
            others stay, and so do rights in virtual hosts of which it says nothing.
        config: names no user in its virtual hosts who is neither in it nor in the store.
        random_bytes: source of salts.
        on_overruled: told the user and what of them was another thing before.

    """
    for entry in config.users:
        _configure_user(store, entry, random_bytes, on_overruled)

    for vhost in config.vhosts:
        _configure_rights(store, vhost, on_overruled)


def _configure_user(
    store: UserStore,
    entry: UserConfig,
    random_bytes: Callable[[int], bytes],
    on_overruled: Callable[[str, str], None] | None,
) -> None:
    user = store.users.get(entry.name)
    limits = (entry.limits.connections_max, entry.limits.channels_max)
    if user is None:
        user = store.add_user(entry.name, _hash_of(entry, None, random_bytes), tags=entry.tags)
    else:
        password_hash = _hash_of(entry, user.password_hash, random_bytes)
        changes = {
            "password": password_hash != user.password_hash,
            "tags": tuple(entry.tags) != user.tags,
            "limits": limits != (user.connections_max, user.channels_max),
        }
        store.add_user(entry.name, password_hash, tags=entry.tags)
        for what, is_other in changes.items():
            if is_other and on_overruled is not None:
                on_overruled(entry.name, what)

    user.connections_max, user.channels_max = limits


def _configure_rights(
    store: UserStore, vhost: VHostConfig, on_overruled: Callable[[str, str], None] | None
) -> None:
    for entry in vhost.permissions:
        old = store.users[entry.user].permission(vhost.name)
        if old is not None and (old.configure, old.write, old.read) == entry[1:]:
            continue

        _, configure, write, read = entry
        store.set_permissions(
            entry.user, vhost=vhost.name, configure=configure, write=write, read=read
        )
        if old is not None and on_overruled is not None:
            on_overruled(entry.user, f"permissions in {vhost.name}")

    for topic in vhost.topic_permissions:
        known = store.users[topic.user].topic_permissions.get((vhost.name, topic.exchange))
        if known is not None and (known.write, known.read) == topic[2:]:
            continue

        _, exchange, write, read = topic
        store.set_topic_permissions(
            topic.user, vhost=vhost.name, exchange=exchange, write=write, read=read
        )
        if known is not None and on_overruled is not None:
            on_overruled(topic.user, f"topic permissions in {vhost.name}")


def _hash_of(
    entry: UserConfig, known: PasswordHash | None, random_bytes: Callable[[int], bytes]
) -> PasswordHash | None:
    if entry.password_hash is not None:
        return parse_password_hash(entry.password_hash.reveal(), entry.hashing_algorithm)

    if entry.password is None:
        return None

    password = entry.password.reveal()
    if verify_password(password, known):
        return known

    return make_password_hash(password, random_bytes(SALT_BYTES))
