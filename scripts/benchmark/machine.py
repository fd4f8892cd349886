"""What Linux says about processes and the machine."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Final

__all__ = [
    "ForeignWork",
    "cpu_model",
    "cpu_seconds",
    "describe_machine",
    "listening_pids",
    "resident_bytes",
]

_LISTEN: Final = "0A"
_WATCH_LEAST_S: Final = 0.5
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def listening_pids(port: int) -> tuple[int, ...]:
    """Find the processes of this machine that hold the listening socket of ``port``."""
    inodes = {
        f"socket:[{fields[9]}]"
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for fields in _socket_rows(Path(table))
        if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port
    }
    return tuple(
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if inodes and entry.name.isdigit() and _holds_any(entry / "fd", inodes)
    )


def _socket_rows(table: Path) -> list[list[str]]:
    try:
        return [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []


def _holds_any(folder: Path, names: set[str]) -> bool:
    try:
        for link in folder.iterdir():
            if str(link.readlink()) in names:
                return True
    except OSError:
        # The process or the descriptor went away, or is not ours to look at.
        return False

    return False


def cpu_seconds(pids: tuple[int, ...]) -> float:
    """Add up the user and system time of the processes, all threads included, ended ones too."""
    return sum(time.clock_gettime(_cpu_clock(pid)) for pid in pids)


def _cpu_clock(pid: int) -> int:
    """Name the clock that a process's own work drives, as clock_getcpuclockid(3) does.

    The clocks of ``/proc`` tick a hundred times a second: too few for a run of a tenth of one.
    """
    return (~pid << 3) | 2


def resident_bytes(pids: tuple[int, ...]) -> int:
    """Add up the resident memory of the processes."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024

    return total


def cpu_model() -> str:
    """Name the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()

    return platform.processor() or platform.machine()


def describe_machine() -> dict[str, str | int]:
    """Say where the figures come from."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.release()}",
    }


class ForeignWork:
    """Tells how much of the machine others took since it was made: figures need it idle."""

    def __init__(self, pids: tuple[int, ...]) -> None:
        self._pids = pids
        self._started_s = time.monotonic()
        self._started_with_s = self._foreign_seconds()

    def cores(self) -> float | None:
        """Average what neither the broker nor we and our ended children took, in cores.

        Over a moment it cannot be told: processor time is counted in hundredths of a second.
        """
        elapsed_s = time.monotonic() - self._started_s
        if elapsed_s < _WATCH_LEAST_S:
            return None

        return max(0.0, self._foreign_seconds() - self._started_with_s) / elapsed_s

    def _foreign_seconds(self) -> float:
        ours = os.times()
        ours_s = ours.user + ours.system + ours.children_user + ours.children_system
        return _busy_seconds() - ours_s - cpu_seconds(self._pids)


def _busy_seconds() -> float:
    """Add up what all processors have worked since the machine started."""
    with Path("/proc/stat").open() as file:
        user, nice, system, _, _, *interrupts_and_steal = map(int, file.readline().split()[1:9])

    return (user + nice + system + sum(interrupts_and_steal)) / _TICKS_PER_S
