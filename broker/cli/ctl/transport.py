"""Requests to a broker, over its local socket or by HTTP (cli layer).

Invariant: whatever goes wrong between here and the broker is one `CtlError`, which says what was
tried, what came of it, and what to do.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from broker.cli.ctl.faults import EXIT_SOFTWARE, EXIT_TIMEOUT, EXIT_UNAVAILABLE, CtlError
from broker.cli.ctl.terms import harmless
from broker.local_socket import connect_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker.cli.trust import Trust

__all__ = ["Answer", "Credentials", "HTTPPlace", "LocalPlace", "Place", "Requester"]

JSON_TYPE: Final = "application/json"
SOFTWARE_STATUS: Final = 500


class Credentials(NamedTuple):
    """Who asks."""

    user: str
    password: str

    @property
    def header(self) -> str:
        """As HTTP wants it."""
        pair = f"{self.user}:{self.password}".encode("utf-8", "surrogateescape")
        return f"Basic {base64.b64encode(pair).decode('ascii')}"


class Answer(NamedTuple):
    """What came back."""

    status: int
    raw: bytes

    @property
    def value(self) -> object:
        """The body, which is JSON; None where there is none."""
        return json.loads(self.raw) if self.raw else None

    @property
    def reason(self) -> str:
        """Why it is no success, for people."""
        try:
            value = self.value
        except ValueError:
            return harmless(self.raw[:200].decode("utf-8", "replace"))

        reason = value.get("reason", "") if isinstance(value, dict) else value
        if isinstance(reason, list):
            return harmless(": ".join(map(str, reason)))

        # RabbitMQ's reasons have an empty line after their heading.
        return harmless(str(reason or "").strip().replace("\n\n", ": "))


class Place(Protocol):
    """Where a broker may be."""

    @property
    def name(self) -> str: ...

    @property
    def is_local(self) -> bool: ...

    def open(self, timeout_s: float | None) -> http.client.HTTPConnection: ...


class LocalPlace(NamedTuple):
    """A socket in a data directory: whoever can open it is an administrator."""

    path: str

    @property
    def name(self) -> str:
        return self.path

    @property
    def is_local(self) -> bool:
        return True

    def open(self, timeout_s: float | None) -> http.client.HTTPConnection:
        return _LocalConnection(self.path, timeout_s)


class HTTPPlace(NamedTuple):
    """The address of an HTTP API."""

    host: str
    port: int
    prefix: str = ""
    trust: Trust | None = None
    """What TLS connections are made with; None for none."""

    @property
    def name(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.trust is None else 'https'}://{host}:{self.port}{self.prefix}"

    @property
    def is_local(self) -> bool:
        return False

    def open(self, timeout_s: float | None) -> http.client.HTTPConnection:
        if self.trust is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)

        try:
            context = self.trust.context()
        except ValueError as problem:
            raise CtlError(str(problem)) from None

        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=context)


class _LocalConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float | None) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = connect_to(self._path, self.timeout)


class Requester:
    """Makes requests at the first of some places that answers.

    Args:
        places: in the order in which they are tried.
        credentials: None for whoever can open the local socket.
        default_credentials: for places that want some, where nobody gave any.
        timeout_s: for each request; None for no end.

    """

    def __init__(
        self,
        places: Iterable[Place],
        credentials: Credentials | None,
        default_credentials: Credentials,
        timeout_s: float | None,
    ) -> None:
        self._places = list(places)
        self._credentials = credentials
        self._default = default_credentials
        self.timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._place: Place | None = None

    @property
    def place(self) -> Place:
        """Where the broker is."""
        if self._place is None:
            self._connect()

        assert self._place is not None
        return self._place

    def close(self) -> None:
        """Hang up; the next request connects again."""
        connection, self._connection, self._place = self._connection, None, None
        if connection is not None:
            connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        as_user: Credentials | None = None,
        headers: Mapping[str, str | bytes] | None = None,
    ) -> Answer:
        """One request; the path begins behind ``/api``.

        Raises:
            CtlError: no broker answers, or not in time, or the login is refused.

        """
        raw = body if isinstance(body, bytes) else None
        if raw is None and body is not None:
            raw = json.dumps(body).encode("ascii")

        connection = self._connect()
        place = self.place
        sent: dict[str, str | bytes] = {"content-type": JSON_TYPE, **(headers or {})}
        credentials = as_user or self._credentials
        if credentials is None and not place.is_local:
            credentials = self._default

        if credentials is not None:
            sent["authorization"] = credentials.header

        prefix = place.prefix if isinstance(place, HTTPPlace) else ""
        try:
            connection.request(method, f"{prefix}/api{path}", raw, sent)
            response = connection.getresponse()
            answer = Answer(response.status, response.read())
        except TimeoutError:
            raise self._too_late(place) from None
        except (OSError, http.client.HTTPException) as fault:
            self.close()
            raise CtlError(
                f"{place.name} broke off: {_cause(fault)}; is the broker still running?"
            ) from None

        self._check(answer, credentials, as_user)
        return answer

    def _check(
        self, answer: Answer, credentials: Credentials | None, as_user: Credentials | None
    ) -> None:
        if answer.status == http.client.UNAUTHORIZED and as_user is None:
            who = "nobody" if credentials is None else f"user '{credentials.user}'"
            raise CtlError(
                f"{self.place.name} refuses {who} ({answer.reason or 'login needed'}): give another"
                " with --user and --password"
            )

        if answer.status >= SOFTWARE_STATUS and answer.status != http.client.SERVICE_UNAVAILABLE:
            raise CtlError(f"the broker failed: {answer.reason}", EXIT_SOFTWARE)

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is not None:
            return self._connection

        tried: list[str] = []
        for place in self._places:
            connection = place.open(self.timeout_s)
            try:
                connection.connect()
            except TimeoutError:
                raise self._too_late(place) from None
            except ssl.SSLCertVerificationError as fault:
                raise CtlError(
                    f"{place.name} is not trusted: {fault.verify_message}; if the certificate is of"
                    " an authority of your own, name that with --ca FILE"
                ) from None
            except OSError as fault:
                tried.append(f"{place.name} ({_cause(fault)})")
                continue

            self._connection, self._place = connection, place
            return connection

        raise CtlError(
            f"no broker answers at {' nor at '.join(tried)}: start one with `leveret serve`, or say"
            " where it is with --data-dir or --url",
            EXIT_UNAVAILABLE,
        )

    def _too_late(self, place: Place) -> CtlError:
        self.close()
        return CtlError(
            f"{place.name} did not answer within {self.timeout_s:g} s: try a longer --timeout",
            EXIT_TIMEOUT,
        )


def _cause(fault: Exception) -> str:
    if isinstance(fault, socket.gaierror):
        return "there is no such host"

    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror.lower()

    return str(fault) or type(fault).__name__
