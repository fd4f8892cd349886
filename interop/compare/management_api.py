"""Administration of RabbitMQ by its management plugin's HTTP API."""

from __future__ import annotations

import base64
import html
import json
import time
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from interop.compare.administration import Governed, PolicySetting, Refused, Rights

if TYPE_CHECKING:
    from interop.compare.administration import TopicRights, UserSetting
    from interop.compare.control_tool import ControlTool

__all__ = ["ManagementAPI"]

PATIENCE_S: Final = 16.0
"""How long the statistics may lag behind: RabbitMQ gathers them every five seconds."""

PAUSE_S: Final = 0.1
FAILED: Final = "Validation failed\n\n"


class ManagementAPI:
    """The API at an address such as ``http://127.0.0.1:15672``, as guest.

    Args:
        url: the address.
        control: does what the API cannot, if there is a tool for it.

    """

    def __init__(self, url: str, control: ControlTool | None = None) -> None:
        self._control = control
        parts = urlsplit(url)
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 15672
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
            "Content-Type": "application/json",
        }

    @property
    def has_control(self) -> bool:
        return self._control is not None

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

    def queue_governed(
        self, queue: str, expected: Governed | None, *, vhost: str = "/"
    ) -> Governed:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = self.call("GET", "queues", vhost, queue)
            definition = found.get("effective_policy_definition")
            governed = Governed(
                str(found.get("policy") or ""),
                str(found.get("operator_policy") or ""),
                definition if isinstance(definition, dict) else {},
            )
            if expected in (None, governed) or time.monotonic() > deadline:
                return governed

            time.sleep(PAUSE_S)

    def exchange_policy(self, exchange: str, *, vhost: str = "/") -> str:
        return str(self.call("GET", "exchanges", vhost, exchange).get("policy") or "")

    # -- users and virtual hosts

    def put_user(self, setting: UserSetting) -> None:
        password = setting.password or setting.name
        body = {"password": password, "tags": ",".join(setting.tags)}
        self.call("PUT", "users", setting.name, body=body)

    def delete_user(self, name: str) -> None:
        self.call("DELETE", "users", name)

    def add_vhost(self, name: str) -> None:
        self.call("PUT", "vhosts", name, body={})
        self.set_rights("guest", Rights(".*", ".*", ".*"), vhost=name)

    def delete_vhost(self, name: str) -> None:
        self.call("DELETE", "vhosts", name)

    def set_rights(self, user: str, rights: Rights, *, vhost: str = "/") -> None:
        self.call("PUT", "permissions", vhost, user, body=rights._asdict())

    def clear_rights(self, user: str, *, vhost: str = "/") -> None:
        self.call("DELETE", "permissions", vhost, user)

    def set_topic_rights(self, user: str, rights: TopicRights, *, vhost: str = "/") -> None:
        self.call("PUT", "topic-permissions", vhost, user, body=rights._asdict())

    def clear_topic_rights(self, user: str, *, vhost: str = "/") -> None:
        self.call("DELETE", "topic-permissions", vhost, user)

    def limit_user(self, user: str, limit: str, value: int) -> None:
        self.call("PUT", "user-limits", user, limit, body={"value": value})

    def limit_vhost(self, vhost: str, limit: str, value: int) -> None:
        self.call("PUT", "vhost-limits", vhost, limit, body={"value": value})

    # -- the whole broker

    def set_alarm(self, name: str, is_on: bool) -> None:
        self._controlled().set_alarm(name, is_on)

    def set_consumer_timeout(self, milliseconds: int | None) -> None:
        self._controlled().set_consumer_timeout(milliseconds)

    def _controlled(self) -> ControlTool:
        assert self._control is not None, "the scenario is added without is_alone=True"
        return self._control

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
