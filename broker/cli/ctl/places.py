"""Where the broker is, and who asks: options, environment, what is usual (cli layer)."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from broker.cli.ctl.faults import EXIT_UNAVAILABLE, CtlError, WrongUsage
from broker.cli.ctl.transport import Credentials, HTTPPlace, LocalPlace, Requester
from broker.cli.trust import Trust
from broker.local_socket import has_local_sockets, socket_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.cli.ctl.transport import Place

__all__ = ["PASSWORD_VARIABLE", "Wishes", "find_broker"]

URL_VARIABLE: Final = "LEVERET_CTL_URL"
USER_VARIABLE: Final = "LEVERET_CTL_USER"
PASSWORD_VARIABLE: Final = "LEVERET_CTL_PASSWORD"  # noqa: S105
PASSWORD_FILE_VARIABLE: Final = "LEVERET_CTL_PASSWORD_FILE"  # noqa: S105
CA_VARIABLE: Final = "LEVERET_CTL_CA"
CERT_VARIABLE: Final = "LEVERET_CTL_CERT"
KEY_VARIABLE: Final = "LEVERET_CTL_KEY"

USUAL_HOST: Final = "localhost"
USUAL_PORTS: Final = {"http": 15672, "https": 15671}
GUEST: Final = Credentials("guest", "guest")


class Wishes(NamedTuple):
    """What options say; None where they say nothing."""

    url: str | None = None
    data_dir: str | None = None
    user: str | None = None
    password: str | None = None
    password_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False


def find_broker(
    wishes: Wishes, environ: Mapping[str, str], *, timeout_s: float | None
) -> Requester:
    """Say where to look for the broker, and as whom to ask.

    Args:
        wishes: of the command line.
        environ: counts where the command line says nothing.
        timeout_s: for each request.

    Raises:
        WrongUsage: what is said contradicts itself, or is no address.
        CtlError: a password cannot be read.

    """
    if wishes.url is not None and wishes.data_dir is not None:
        raise WrongUsage("--url and --data-dir exclude one another: use one of them")

    url = wishes.url
    if url is None and wishes.data_dir is None:
        url = environ.get(URL_VARIABLE) or None

    is_about_tls = wishes.ca or wishes.cert or wishes.key or wishes.insecure
    if is_about_tls and not (url or "").lower().startswith("https://"):
        raise WrongUsage("--ca, --cert, --key and --insecure are for --url https://host:port")

    credentials = _credentials(wishes, environ)
    places: list[Place] = []
    if url is not None:
        place, in_url = _read_url(url, _trust(wishes, environ))
        places.append(place)
        credentials = credentials or in_url
    elif wishes.data_dir is not None:
        places.append(LocalPlace(socket_in(os.path.abspath(wishes.data_dir))))
    else:
        places += _usual_places()

    return Requester(places, credentials, GUEST, timeout_s)


def _usual_places() -> list[Place]:
    from broker.errors import StoreError
    from broker.store.directory import default_data_directory

    places: list[Place] = []
    if has_local_sockets():
        # A user without a home has no such directory.
        with contextlib.suppress(StoreError):
            places.append(LocalPlace(socket_in(default_data_directory())))

    places.append(HTTPPlace(USUAL_HOST, USUAL_PORTS["http"]))
    return places


def _trust(wishes: Wishes, environ: Mapping[str, str]) -> Trust:
    cert = wishes.cert or environ.get(CERT_VARIABLE)
    key = wishes.key or (None if wishes.cert else environ.get(KEY_VARIABLE))
    if key is not None and cert is None:
        raise WrongUsage("--key belongs to a certificate: name it with --cert")

    return Trust(wishes.ca or environ.get(CA_VARIABLE), cert, key, wishes.insecure)


def _read_url(url: str, trust: Trust) -> tuple[Place, Credentials | None]:
    parts = urlsplit(url if "://" in url or url.startswith("unix:") else f"http://{url}")
    if parts.scheme == "unix":
        return LocalPlace(parts.path), None

    try:
        port = parts.port
    except ValueError:
        port = -1

    if parts.scheme not in USUAL_PORTS or not parts.hostname or port == -1:
        raise WrongUsage(f"--url {url}: http://host:port, https://host:port or unix:/path")

    place = HTTPPlace(
        parts.hostname,
        port or USUAL_PORTS[parts.scheme],
        parts.path.rstrip("/").removesuffix("/api"),
        trust if parts.scheme == "https" else None,
    )
    if parts.username is None:
        return place, None

    return place, Credentials(unquote(parts.username), unquote(parts.password or ""))


def _credentials(wishes: Wishes, environ: Mapping[str, str]) -> Credentials | None:
    user = wishes.user or environ.get(USER_VARIABLE)
    file = wishes.password_file
    password = wishes.password
    if password is not None and file is not None:
        raise WrongUsage("--password and --password-file exclude one another: use one of them")

    if password is None and file is None:
        password = environ.get(PASSWORD_VARIABLE)
        file = environ.get(PASSWORD_FILE_VARIABLE) if password is None else None

    if file is not None:
        password = _read_password(file)

    if user is None and password is None:
        return None

    if password is None:
        raise WrongUsage(
            f"--user {user}: where is the password? Give --password-file, or {PASSWORD_VARIABLE}"
        )

    return Credentials(user or GUEST.user, password)


def _read_password(name: str) -> str:
    try:
        with open(name, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().rstrip("\r\n")
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise CtlError(f"cannot read the password in {name}: {reason}", EXIT_UNAVAILABLE) from None
