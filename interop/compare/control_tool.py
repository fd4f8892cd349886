"""What RabbitMQ does only for its control tool: alarms, and how long a delivery may wait.

The tool is a command that ends where the words for ``rabbitmqctl`` begin, so that it may reach into
a container or another root.
"""

from __future__ import annotations

import shlex
import subprocess
from typing import Final

__all__ = ["ControlTool"]

ALARMS: Final[dict[str, tuple[tuple[str, str], tuple[str, str]]]] = {
    "memory": (
        ("set_vm_memory_high_watermark", "0.0000001"),
        ("set_vm_memory_high_watermark", "0.4"),
    ),
    "disk": (("set_disk_free_limit", "1000000GB"), ("set_disk_free_limit", "50MB")),
}
"""By alarm, what raises and what clears it: there is never so little memory, never so much disk."""

LOOK_EVERY_MS: Final = 200
"""How often channels look for deliveries that have waited too long; 60 s where nothing is said."""

TIMEOUT: Final = (
    "application:set_env(rabbit, consumer_timeout, {timeout}), "
    "application:set_env(rabbit, channel_tick_interval, {interval})."
)
DEFAULT_TIMEOUT: Final = {"timeout": 1_800_000, "interval": 60_000}


class ControlTool:
    """Runs ``rabbitmqctl`` for one broker.

    Args:
        command: words of a shell, such as ``docker exec rabbit rabbitmqctl -q``.

    """

    def __init__(self, command: str) -> None:
        self._words = shlex.split(command)

    def set_alarm(self, name: str, is_on: bool) -> None:
        raising, clearing = ALARMS[name]
        self._run(*(raising if is_on else clearing))

    def set_consumer_timeout(self, milliseconds: int | None) -> None:
        values = DEFAULT_TIMEOUT
        if milliseconds is not None:
            values = {"timeout": milliseconds, "interval": LOOK_EVERY_MS}

        self._run("eval", TIMEOUT.format(**values))

    def _run(self, *words: str) -> None:
        command = [*self._words, *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
