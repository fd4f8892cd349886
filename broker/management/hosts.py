"""By which names the API is asked (management layer).

A page of any site can have its own name resolve to this machine, and its scripts then ask the API
as pages of ours would (DNS rebinding): with the default password, say. What such a page cannot do
is to ask for another name than its own. So plain HTTP is answered only under names that nobody can
have in the public DNS, and under those that the configuration knows. With TLS the browser has
compared the name with the certificate already.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from broker.management.errors import HTTPProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["KnownHosts"]

ANY: Final = "*"
WILDCARD: Final = "*."

PRIVATE_ENDS: Final = (
    "localhost",
    "local",
    "internal",
    "lan",
    "intranet",
    "corp",
    "home",
    "home.arpa",
    "test",
    "invalid",
)
"""Nobody can register a name below these (RFC 2606, 6761, 6762, 8375, and those that ICANN keeps
back); Kubernetes and container networks name their services so."""


class KnownHosts:
    """Names that the API answers to.

    Args:
        names: besides what cannot be had in the public DNS; ``*.example.org`` is every name below
            it, ``*`` every name.

    """

    __slots__ = ("_is_any", "_names", "_parents")

    def __init__(self, names: Iterable[str] = ()) -> None:
        known = {name.lower().rstrip(".") for name in names}
        self._is_any = ANY in known
        self._names = frozenset(known)
        below = [name.removeprefix(WILDCARD) for name in known if name.startswith(WILDCARD)]
        self._parents = tuple(f".{parent}" for parent in (*PRIVATE_ENDS, *below))

    def accepts(self, header: str) -> bool:
        """Whether a request may name that host, port and all; programs may name none."""
        name = _name_in(header)
        return (
            self._is_any
            or name in self._names
            or "." not in name
            or name.endswith(self._parents)
            or _is_address(name)
        )

    def check(self, header: str) -> None:
        """Refuse what a page could ask that gives this machine a name of its own.

        Raises:
            HTTPProblem: 421.

        """
        if not self.accepts(header):
            reason = "plain HTTP is not answered under that name: list it in management.hosts"
            raise HTTPProblem(421, "misdirected_request", reason)


def _name_in(header: str) -> str:
    """The name in ``name:port``; addresses of IPv6 without their brackets."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]

    return text.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False

    return True
