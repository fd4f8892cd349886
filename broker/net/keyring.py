"""The certificates and keys in use, and what keeps them fresh. Layer: net.

Connections are made with what is in use when they begin, and keep it. Files that change are looked
at now and then, and at SIGHUP.

Invariant: what is in use could be loaded as a whole; what cannot is refused with a line in the log
and changes nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import StartError
from broker.tls.names import distinguished_name
from broker.tls.profile import EXPIRY_WARNING_S, day_text, load_profile

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable, Iterable

    from broker.clock import Clock
    from broker.config.schema import TLSConfig, TLSCredentials
    from broker.tls.certificate import Certificate
    from broker.tls.profile import Profile

    Log = Callable[[str, str, dict[str, object]], None]

    Signature = tuple[tuple[int, int, int] | None, ...]

__all__ = ["CertificateFact", "Keyring"]

LOOK_INTERVAL_S: Final = 5.0
"""How often the files are looked at: a few calls of stat."""

TELL_INTERVAL_S: Final = 86_400.0
"""How often a certificate that is about to expire is told of."""


class CertificateFact(NamedTuple):
    """One certificate in use.

    Attributes:
        profile: the name of what it belongs to.
        server_name: who asks for that name sees it; empty where everybody does.
        purpose: ``server`` for the one that is shown and what vouches for it, ``authority`` for
            those who vouch for clients.
        path: its file.
        certificate: what it says.

    """

    profile: str
    server_name: str
    purpose: str
    path: str
    certificate: Certificate


class _Held:
    """One profile in use."""

    __slots__ = ("config", "context", "profile", "refused", "seen", "signature")

    def __init__(
        self, config: TLSConfig, profile: Profile, context: ssl.SSLContext, signature: Signature
    ) -> None:
        self.config = config
        self.profile = profile
        self.context = context
        self.signature = signature
        # As it was when it was last looked at: what still changes is not loaded yet.
        self.seen = signature
        self.refused: Signature | None = None


class Keyring:
    """What TLS connections are made with, by name.

    Args:
        configs: all of them.
        clock: knows what day it is.
        log: told of what is loaded, refused and about to expire.

    Raises:
        StartError: one of them cannot be loaded.

    """

    def __init__(self, configs: Iterable[TLSConfig], clock: Clock, log: Log) -> None:
        self._clock = clock
        self._log = log
        self._held: dict[str, _Held] = {}
        self._told_at: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        for config in configs:
            held, problem = self._load(config)
            if held is None:
                raise StartError(f"tls.{config.name}: {problem}")

            self._held[config.name] = held
            self._tell_of("tls.loaded", held)

        self._tell_of_expiry()

    def context(self, name: str) -> ssl.SSLContext:
        """What to make the next connection with."""
        return self._held[name].context

    @property
    def certificates(self) -> list[CertificateFact]:
        """Every certificate in use."""
        return [fact for held in self._held.values() for fact in _facts_of(held)]

    def replace(self, configs: Iterable[TLSConfig]) -> None:
        """Use other profiles by the same names, and read all files anew; what fails stays."""
        for config in configs:
            held = self._held.get(config.name)
            if held is not None:
                self._renew(held, config)

        self._tell_of_expiry()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the files from now on."""

        def look() -> None:
            self._timer = loop.call_later(LOOK_INTERVAL_S, look)
            self.look()

        self._timer = loop.call_later(LOOK_INTERVAL_S, look)

    def stop(self) -> None:
        """Look no more; harmless when it is stopped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Load what has changed since, and is not changing any more."""
        for held in self._held.values():
            signature = _signature_of(held.config)
            is_quiet = signature == held.seen
            held.seen = signature
            if is_quiet and signature not in (held.signature, held.refused):
                self._renew(held, held.config)

        self._tell_of_expiry()

    # ---

    def _load(self, config: TLSConfig) -> tuple[_Held | None, str]:
        signature = _signature_of(config)
        profile = load_profile(config, self._clock.wall())
        if profile.context is None:
            faults = [one for one in profile.problems if not one.is_warning]
            return None, "; ".join(f"{'.'.join(one.keys)}: {one.message}" for one in faults)

        return _Held(config, profile, profile.context, signature), ""

    def _renew(self, held: _Held, config: TLSConfig) -> None:
        fresh, problem = self._load(config)
        if fresh is None:
            held.refused = held.seen = _signature_of(config)
            fields: dict[str, object] = {"tls": config.name, "reason": problem}
            self._log("error", "tls.refused", {**fields, "kept": "what was in use before"})
            return

        before = _prints_of(held)
        self._held[config.name] = fresh
        if before != _prints_of(fresh) or held.signature != fresh.signature:
            self._tell_of("tls.reloaded", fresh)

    def _tell_of(self, event: str, held: _Held) -> None:
        for chain in held.profile.chains:
            own = chain.certificates[0]
            fields: dict[str, object] = {
                "tls": held.config.name,
                "server_name": chain.server_name or None,
                "subject": distinguished_name(own.subject),
                "names": " ".join(text for _, text in own.alternative_names),
                "expires": day_text(chain.expires_s),
            }
            self._log("info", event, fields)

    def _tell_of_expiry(self) -> None:
        now_s = self._clock.wall()
        facts = self.certificates
        in_use = {fact.certificate.fingerprint for fact in facts}
        self._told_at = {key: at for key, at in self._told_at.items() if key in in_use}
        for fact in facts:
            certificate = fact.certificate
            left_s = certificate.not_after_s - now_s
            told_at = self._told_at.get(certificate.fingerprint, -TELL_INTERVAL_S)
            has_just_expired = left_s <= 0 and told_at < certificate.not_after_s
            is_news = now_s - told_at >= TELL_INTERVAL_S or has_just_expired
            if left_s > EXPIRY_WARNING_S or not is_news:
                continue

            self._told_at[certificate.fingerprint] = now_s
            fields: dict[str, object] = {
                "tls": fact.profile,
                "path": fact.path,
                "subject": distinguished_name(certificate.subject),
                "expires": day_text(certificate.not_after_s),
            }
            if left_s <= 0:
                self._log("error", "tls.expired", fields)
            else:
                self._log("warning", "tls.expires", {**fields, "days": int(left_s / 86_400)})


def _facts_of(held: _Held) -> list[CertificateFact]:
    name = held.config.name
    facts = [
        CertificateFact(name, chain.server_name, "server", chain.path, one)
        for chain in held.profile.chains
        for one in chain.certificates
    ]
    facts += [
        CertificateFact(name, "", "authority", held.config.ca or "", one)
        for one in held.profile.authorities
    ]
    return facts


def _prints_of(held: _Held) -> list[str]:
    return [fact.certificate.fingerprint for fact in _facts_of(held)]


def _signature_of(config: TLSConfig) -> Signature:
    """Changes when a file does."""

    def files(credentials: TLSCredentials) -> list[str | None]:
        return [credentials.cert, credentials.key]

    paths = [*files(config.credentials), config.ca, config.crl]
    for _, credentials in config.sni:
        paths += files(credentials)

    return tuple(_stat_of(path) for path in paths if path is not None)


def _stat_of(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None

    return found.st_ino, found.st_size, found.st_mtime_ns
