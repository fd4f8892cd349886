"""Administration of RabbitMQ by its management plugin's HTTP API."""

from __future__ import annotations

import base64
import html
import json
import time
from http.client import HTTPConnection
from typing import Final
from urllib.parse import quote, urlsplit

from interop.compare.administration import Governed, PolicySetting, Refused

__all__ = ["ManagementAPI"]

PATIENCE_S: Final = 12.0
"""How long the statistics may lag behind: RabbitMQ gathers them every five seconds."""

PAUSE_S: Final = 0.1
FAILED: Final = "Validation failed\n\n"


class ManagementAPI:
    """The API at an address such as ``http://127.0.0.1:15672``, as guest."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 15672
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
            "Content-Type": "application/json",
        }

    # -- policies

    def set_policy(self, setting: PolicySetting) -> None:
        body = {
            "pattern": setting.pattern,
            "definition": setting.definition,
            "apply-to": setting.apply_to,
            "priority": setting.priority,
        }
        # All queues have been told of it when the answer comes.
        self.call("PUT", _policies(setting.is_operator), setting.vhost, setting.name, body=body)

    def clear_policy(self, name: str, *, is_operator: bool = False, vhost: str = "/") -> None:
        self.call("DELETE", _policies(is_operator), vhost, name)

    def queue_governed(self, queue: str, expected: Governed, *, vhost: str = "/") -> Governed:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = self.call("GET", "queues", vhost, queue)
            definition = found.get("effective_policy_definition")
            governed = Governed(
                str(found.get("policy") or ""),
                str(found.get("operator_policy") or ""),
                definition if isinstance(definition, dict) else {},
            )
            if governed == expected or time.monotonic() > deadline:
                return governed

            time.sleep(PAUSE_S)

    def exchange_policy(self, exchange: str, *, vhost: str = "/") -> str:
        return str(self.call("GET", "exchanges", vhost, exchange).get("policy") or "")

    # -- requests

    def call(self, verb: str, *path: str, body: object = None) -> dict[str, object]:
        """Do a request below ``/api``; returns the JSON object of the answer, if it is one.

        Raises:
            Refused: the status is none of success; its text is the reason given.

        """
        address = "/api/" + "/".join(quote(part, safe="") for part in path)
        connection = HTTPConnection(self._host, self._port, timeout=20)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(verb, address, data, self._headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()

        if answer.status >= 300:
            raise Refused(_reason(answer.status, text))

        found = json.loads(text) if text else {}
        return found if isinstance(found, dict) else {}


def _policies(is_operator: bool) -> str:
    return "operator-policies" if is_operator else "policies"


def _reason(status: int, text: str) -> str:
    """What the broker says is wrong, without what the API wraps it in."""
    try:
        reason = str(json.loads(text)["reason"])
    except (ValueError, KeyError, TypeError):
        return f"status {status}"

    # 3.10 escapes what it puts into JSON as if it were HTML.
    return html.unescape(reason).removeprefix(FAILED).rstrip("\n")
