"""What TLS needs beside the right keys: files that fit, and names that are there (configuration
layer).

Invariant: every file that a profile names is read here before anything listens, so that a broker
that starts, or takes on another configuration, does not find out later.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from broker.config import shapes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.config.problems import Keys
    from broker.config.schema import Config, TLSConfig, TLSCredentials
    from broker.config.tree import Report

__all__ = ["check_tls", "with_absolute_files"]

_ALL_ADDRESSES: Final = ("0.0.0.0/0", "::/0")


def with_absolute_files(profile: TLSConfig, directory: str) -> TLSConfig:
    """The same with paths that start where the configuration file is."""

    def place(path: str | None) -> str | None:
        return None if path is None else os.path.join(directory, path)

    def place_both(one: TLSCredentials) -> TLSCredentials:
        return one._replace(
            cert=os.path.join(directory, one.cert), key=os.path.join(directory, one.key)
        )

    return profile._replace(
        credentials=place_both(profile.credentials),
        ca=place(profile.ca),
        crl=place(profile.crl),
        sni=tuple((name, place_both(one)) for name, one in profile.sni),
    )


def check_tls(config: Config, report: Report) -> None:
    """Report what keeps listeners from making TLS connections, and warn of what soon will."""
    _check_names(config, report)
    for profile in config.tls:
        _check_profile(profile, report)

    _check_proxies(config, report)
    is_sound = all(report.is_sound(("listeners", key)) for key in ("amqp", "amqps"))
    if is_sound and not config.listeners.amqp and not config.listeners.amqps:
        report.add_at(
            ("listeners", "amqp"), "nobody could connect: there is no listener here nor in amqps"
        )

    verifying = {profile.name for profile in config.tls if profile.verify != "none"}
    can_show = any(one.tls in verifying for one in config.listeners.amqps)
    if "EXTERNAL" in config.auth.mechanisms and not can_show:
        report.warn_at(
            ("auth", "mechanisms"),
            "nobody can use EXTERNAL: there is no listener in listeners.amqps whose tls verifies"
            " the certificates of clients (verify: optional or required)",
        )


def _users(config: Config) -> Iterator[tuple[Keys, str]]:
    """Which listener wants which profile."""
    sections: tuple[tuple[Keys, tuple[str | None, ...]], ...] = (
        (("listeners", "amqps"), tuple(one.tls for one in config.listeners.amqps)),
        (("management", "listeners"), tuple(one.tls for one in config.management.listeners)),
        (
            ("metrics", "prometheus", "listeners"),
            tuple(one.tls for one in config.metrics.prometheus.listeners),
        ),
    )
    for keys, names in sections:
        for index, name in enumerate(names):
            if name is not None:
                yield (*keys, str(index), "tls"), name


def _check_names(config: Config, report: Report) -> None:
    known = [profile.name for profile in config.tls]
    used = set()
    for keys, name in _users(config):
        used.add(name)
        if name in known or not report.is_sound(keys) or not report.is_sound(("tls",)):
            continue

        hint = shapes.near(name, known)
        if not known:
            hint = f" - add tls: {{{name}: {{cert: FILE, key: FILE}}}}"

        report.add_at(keys, f"there is nothing under tls by the name {name!r}{hint}")

    for name in known:
        if name not in used:
            report.warn_at(("tls", name), "no listener uses it")


def _check_profile(profile: TLSConfig, report: Report) -> None:
    at: Keys = ("tls", profile.name)
    written = [at, *((*at, key) for key in ("cert", "key", "ca", "crl", "verify", "min_version"))]
    for name, _ in profile.sni:
        written += [(*at, "sni", name, key) for key in ("cert", "key")]

    if not all(map(report.is_sound, written)):
        return

    # Imported where there is TLS: most brokers start without.
    from broker.tls.profile import load_profile

    for problem in load_profile(profile, time.time()).problems:
        keys = (*at, *problem.keys)
        if problem.is_warning:
            report.warn_at(keys, problem.message)
        elif report.is_sound(keys):
            report.add_at(keys, problem.message)


def _check_proxies(config: Config, report: Report) -> None:
    for section in ("amqp", "amqps"):
        for index, listener in enumerate(getattr(config.listeners, section)):
            for place, network in enumerate(listener.proxies or ()):
                if network in _ALL_ADDRESSES:
                    keys = ("listeners", section, str(index), "proxy_protocol", "trusted")
                    report.warn_at(
                        (*keys, str(place)), "whoever connects may say that he is somebody else"
                    )
