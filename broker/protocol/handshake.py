"""From the protocol header to an open virtual host (sections C.1 to C.5).

A handshake lives until its connection runs. Before the virtual host is chosen, a fault drops the
socket, with a delay: nobody is known yet who would be owed an explanation (rule C-34).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker import __version__
from broker.auth.logins import Attempt
from broker.auth.mechanisms import Credentials, External, Malformed, Mechanism, Refused
from broker.auth.users import AuthenticationError, User
from broker.errors import LoginRefused, NotAllowed, PeerDropped
from broker.limits import DROP_DELAY_MS
from broker.protocol.states import OPENING, STARTING, TUNING
from broker.wire import codec
from broker.wire.constants import PROTOCOL_HEADER
from broker.wire.methods import (
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
)
from broker.wire.tables import Arguments, Field

if TYPE_CHECKING:
    from broker.core.vhost import VirtualHost
    from broker.protocol.connection import Connection

__all__ = ["Handshake", "LoginPending", "accepts_header", "dropped"]

OLD_PROTOCOL_HEADER: Final = b"AMQP\x01\x01\x00\x09"
"""How the first clients of 0-9-1 announced it (rule C-02)."""

CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""Rule C-13: exactly these."""


class LoginPending(Exception):
    """Who it is will be told later: nothing more is read until then."""


def accepts_header(header: bytes) -> bool:
    """Whether eight bytes announce a protocol that is spoken here (rules C-01..C-05)."""
    return header in (PROTOCOL_HEADER, OLD_PROTOCOL_HEADER)


def dropped(reason: str) -> PeerDropped:
    """The error of a handshake that failed without a word (rules C-33, C-34, C-41)."""
    return PeerDropped(reason, after_s=DROP_DELAY_MS / 1000)


class Handshake:
    """Negotiates one connection.

    Args:
        connection: whose handshake it is; gets user, virtual host and limits from here.

    """

    __slots__ = ("_asked_at_ms", "_connection", "_mechanism")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._mechanism: Mechanism | None = None
        self._asked_at_ms = 0

    def begin(self) -> None:
        """The header was right: send connection.start."""
        connection = self._connection
        connection.set_state(STARTING)
        mechanisms = " ".join(self._offered())
        connection.send(codec.encode_connection_start(self._server_properties(), mechanisms))

    def _offered(self) -> list[str]:
        """Rule C-11: EXTERNAL where a certificate was shown, which a plain socket never has."""
        connection = self._connection
        tls = connection.peer.tls
        is_certified = tls is not None and tls.certificate is not None
        return [
            name
            for name, mechanism in connection.node.mechanisms.items()
            if is_certified or not isinstance(mechanism, External)
        ]

    def _server_properties(self) -> Arguments:
        settings = self._connection.node.settings
        capabilities: Arguments = {name: Field("t", True) for name in CAPABILITIES}
        texts = {
            "cluster_name": settings.node_name,
            "copyright": "The Leveret authors",
            "information": "Licensed under the Apache License 2.0",
            "leveret_version": __version__,
            "platform": "Python",
            "product": settings.product,
            "version": settings.release.version,
        }
        properties: Arguments = {"capabilities": Field("F", capabilities)}
        for key, text in texts.items():
            properties[key] = Field("S", text)

        return properties

    def handle(self, method: Method) -> None:
        """Take a method that the connection's state allows.

        Raises:
            LoginRefused, NotAllowed, PeerDropped: the connection does not come about.

        """
        if isinstance(method, ConnectionStartOk):
            self._handle_start_ok(method)
        elif isinstance(method, ConnectionTuneOk):
            self._handle_tune_ok(method)
        elif isinstance(method, ConnectionOpen):
            self._handle_open(method)
        else:
            raise AssertionError(f"no handshake step for {method}")

    # -- who it is

    def _handle_start_ok(self, method: ConnectionStartOk) -> None:
        connection = self._connection
        connection.set_client(method.client_properties)
        mechanism = connection.node.mechanisms.get(method.mechanism)
        is_external = isinstance(mechanism, External)
        if mechanism is None or (is_external and not connection.peer.is_tls):
            raise dropped(f"SASL mechanism {method.mechanism!r} is not on offer")

        connection.mechanism = method.mechanism
        if is_external:
            self._log_in(self._identify(method.mechanism), method.mechanism)
            return

        answer = mechanism.start(method.response)
        if isinstance(answer, Malformed):
            raise dropped(answer.reason)

        if isinstance(answer, Refused):
            raise self._refused(method.mechanism, answer.user, answer.reason)

        self._log_in(self._authenticate(method.mechanism, answer), method.mechanism)

    def _log_in(self, user: User, mechanism_name: str) -> None:
        connection = self._connection
        connection.set_user(user)
        connection.node.churn.logins += 1
        self._tell_of_login("user.authentication.success", user.name, mechanism_name)
        settings = connection.node.settings
        connection.set_state(TUNING)
        connection.send(
            codec.encode_connection_tune(
                settings.channel_max, settings.frame_max, settings.heartbeat_s
            )
        )

    def _authenticate(self, mechanism_name: str, credentials: Credentials) -> User:
        """Rule C-32: a password that is looked at elsewhere and a failure take their time."""
        connection = self._connection
        node = connection.node
        now_ms = node.deadlines.now_ms
        peer = connection.peer
        attempt = Attempt(credentials.user, credentials.password, peer.host, peer.is_loopback)
        self._asked_at_ms = now_ms
        verdict = node.logins.judge(attempt, int(now_ms), self._judged)
        if isinstance(verdict, User):
            return verdict

        if verdict is None or self._answers_later(verdict):
            connection.await_login()
            raise LoginPending

        raise self._refused(mechanism_name, verdict.user, verdict.reason)

    def _judged(self, verdict: User | AuthenticationError) -> None:
        """Called when the password was compared."""
        if isinstance(verdict, User) or not self._answers_later(verdict):
            self._connection.login_judged(verdict)

    def _answers_later(self, error: AuthenticationError) -> bool:
        """Whether the refusal waits, so that trying passwords takes time; then it comes later."""
        connection = self._connection
        node = connection.node
        delay_ms = node.logins.guard.delay_of(connection.peer.host)
        due_ms = self._asked_at_ms + delay_ms
        if due_ms <= node.deadlines.now_ms:
            return False

        node.deadlines.schedule(due_ms, partial(connection.login_judged, error))
        return True

    def go_on(self, verdict: User | AuthenticationError) -> None:
        """Take the verdict that the connection waited for.

        Raises:
            LoginRefused, PeerDropped: it was no.

        """
        mechanism = self._connection.mechanism
        if isinstance(verdict, AuthenticationError):
            raise self._refused(mechanism, verdict.user, verdict.reason)

        self._log_in(verdict, mechanism)

    def _identify(self, mechanism_name: str) -> User:
        """Rule C-22: whom the certificate names."""
        connection = self._connection
        tls = connection.peer.tls
        if tls is None or tls.certificate is None:
            raise self._refused(mechanism_name, "", "the client has shown no certificate")

        name = tls.certificate.user_name
        if name is None:
            subject = tls.certificate.subject
            raise self._refused(
                mechanism_name, "", f"the certificate of {subject} has no name for a user"
            )

        try:
            return connection.node.users.identify(name, is_loopback=connection.peer.is_loopback)
        except AuthenticationError as error:
            raise self._refused(mechanism_name, error.user, error.reason) from None

    def _refused(
        self, mechanism_name: str, user_name: str, reason: str
    ) -> LoginRefused | PeerDropped:
        """Rules C-30 and C-31: an answer for clients that understand it, else silence."""
        connection = self._connection
        connection.node.churn.logins_refused += 1
        connection.log(
            "warning",
            "login.refused",
            {"user": user_name, "mechanism": mechanism_name, "reason": reason},
        )
        self._tell_of_login(
            "user.authentication.failure",
            user_name,
            mechanism_name,
            error=f"user '{user_name}' - invalid credentials",
        )
        if not connection.client.has_capability("authentication_failure_close"):
            return dropped("login refused")

        return LoginRefused(
            f"Login was refused using authentication mechanism {mechanism_name}. "
            "For details see the broker logfile.",
            class_id=0,
            method_id=0,
            is_fatal=True,
        )

    def _tell_of_login(self, key: str, user_name: str, mechanism_name: str, **more: object) -> None:
        """Rule E-134: where from and how, but never why not (rule C-32)."""
        connection = self._connection
        events = connection.node.events
        if events is not None:
            peer = connection.peer
            events.tell(
                key,
                name=user_name,
                connection_name=connection.name,
                connection_type="network",
                auth_mechanism=mechanism_name,
                peer_host=peer.host,
                peer_port=peer.port,
                ssl=peer.is_tls,
                **more,
            )

    # -- limits

    def _handle_tune_ok(self, method: ConnectionTuneOk) -> None:
        connection = self._connection
        settings = connection.node.settings
        frame_max = method.frame_max
        frame_min = settings.release.frame_bytes_min
        if frame_max and frame_max < frame_min:
            raise dropped(
                f"negotiated frame_max = {frame_max} is lower than the minimum allowed value "
                f"({frame_min})"
            )

        _check_not_above("frame_max", frame_max, settings.frame_max)
        _check_not_above("channel_max", method.channel_max, settings.channel_max)
        connection.set_limits(method.channel_max, frame_max, method.heartbeat)
        connection.set_state(OPENING)

    # -- where it goes

    def _handle_open(self, method: ConnectionOpen) -> None:
        connection = self._connection
        node = connection.node
        user = connection.user
        assert user is not None
        limit = node.settings.connections_max
        if limit is not None and len(node.connections) > limit:
            raise NotAllowed(f"connection refused: node connection limit ({limit}) is reached")

        name = method.virtual_host
        vhost = node.vhosts.get(name)
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")

        _check_vhost_limit(vhost, user)
        limit = user.connections_max
        if limit is not None and node.connection_counts.get(user.name, 0) >= limit:
            raise NotAllowed(
                f"connection refused for user '{user.name}': user connection limit ({limit}) "
                "is reached"
            )

        if user.permission(name) is None:
            raise NotAllowed(f"access to vhost '{name}' refused for user '{user.name}'")

        connection.open_vhost(vhost)


def _check_not_above(name: str, value: int, maximum: int) -> None:
    """Rules C-42 and C-43: what the server bounds, the client may not unbound."""
    if maximum and (value == 0 or value > maximum):
        shown = f"{value} (no limit)" if value == 0 else str(value)
        raise dropped(
            f"negotiated {name} = {shown} is higher than the maximum allowed value ({maximum})"
        )


def _check_vhost_limit(vhost: VirtualHost, user: User) -> None:
    limit = vhost.connections_max
    if limit is not None and vhost.connection_count >= limit:
        raise NotAllowed(
            f"access to vhost '{vhost.name}' refused for user '{user.name}': connection limit "
            f"({limit}) is reached"
        )
