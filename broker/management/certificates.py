"""The certificates in use, and which of them expire soon (management layer)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from broker.management.auth import MONITOR
from broker.management.call import answer
from broker.management.routes import Route

if TYPE_CHECKING:
    from aiohttp import web

    from broker.management.call import Call
    from broker.management.json_text import JSON
    from broker.management.site import CertificateView

__all__ = ["ROUTES", "expiring_rows"]

DAY_S: Final = 86_400
OWN: Final = "server"


def _text(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


async def list_certificates(call: Call) -> web.Response:
    """All of them; RabbitMQ has no such list."""
    now_s = call.site.now_wall_ms // 1000
    rows: list[JSON] = [
        {
            "tls": one.tls,
            "server_name": one.server_name or None,
            "purpose": one.purpose,
            "file": one.path,
            "subject": one.subject,
            "issuer": one.issuer,
            "serial": str(one.serial),
            "names": list(one.names),
            "not_before": _text(one.not_before_s),
            "not_after": _text(one.not_after_s),
            "days_left": (one.not_after_s - now_s) // DAY_S,
        }
        for one in call.site.around.certificates()
    ]
    return answer(rows)


def expiring_rows(call: Call, within_s: int) -> list[JSON]:
    """Listeners with certificates that expire within some time, as RabbitMQ shows them."""
    last_s = call.site.now_wall_ms // 1000 + within_s
    by_name: dict[str, list[CertificateView]] = {}
    for one in call.site.around.certificates():
        if one.not_after_s <= last_s:
            by_name.setdefault(one.tls, []).append(one)

    return [
        {
            "node": call.node.settings.node_name,
            "protocol": listener.protocol,
            "interface": listener.host,
            "port": listener.port,
            **_files("certfile", [one for one in by_name[listener.tls] if one.purpose == OWN]),
            **_files("cacertfile", [one for one in by_name[listener.tls] if one.purpose != OWN]),
        }
        for listener in call.site.around.listeners()
        if listener.tls in by_name
    ]


def _files(key: str, expiring: list[CertificateView]) -> JSON:
    return {
        key: expiring[0].path if expiring else None,
        f"{key}_expires_on": [_text(one.not_after_s) for one in expiring],
    }


ROUTES: Final = (Route("GET", "/certificates", MONITOR, list_certificates),)
