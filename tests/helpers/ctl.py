"""ctl within the process of a test, and recordings of rabbitmqctl to hold it against."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from click.testing import CliRunner

from broker.cli.ctl.command import ctl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Ctl", "Outcome", "Recorded", "read_recording"]

PROGRAM = "leveret ctl"


class Outcome(NamedTuple):
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Ctl:
    """Runs commands.

    Args:
        options: in front of each verb.
        environ: in the place of what is set.

    """

    def __init__(self, *options: str, environ: dict[str, str | None] | None = None) -> None:
        self._options = options
        self._environ = environ or {}

    def __call__(self, *words: str, given: str | bytes = "") -> Outcome:
        result = CliRunner().invoke(
            ctl,
            [*self._options, *words],
            input=given,
            env=self._environ,
            prog_name=PROGRAM,
            catch_exceptions=False,
        )
        return Outcome(result.exit_code, result.stdout, result.stderr)

    def line(self, text: str, given: str | bytes = "") -> Outcome:
        """A command as it is typed."""
        return self(*shlex.split(text), given=given)

    def does(self, text: str, given: str | bytes = "") -> str:
        """What a command that succeeds writes, without its banner."""
        outcome = self("-q", *shlex.split(text), given=given)
        assert (outcome.status, outcome.err) == (0, ""), (text, outcome)
        return outcome.out


class Recorded(NamedTuple):
    """What rabbitmqctl made of a command."""

    command: str
    status: int
    out: list[str]
    err: list[str]

    @property
    def error(self) -> str:
        """What went wrong, in one line."""
        text = " ".join(" ".join(self.err).split())
        return text.removeprefix("Error: ").partition(" Arguments given:")[0]


def read_recording(path: Path) -> Iterator[Recorded]:
    """Read commands (``$``), exit statuses, lines of output (``O``) and of errors (``E``)."""
    recorded: Recorded | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "$":
            if recorded is not None:
                yield recorded

            recorded = Recorded(rest, 0, [], [])
        elif kind == "[rc" and recorded is not None:
            recorded = recorded._replace(status=int(rest.rstrip("]")))
        elif kind in ("O", "E") and recorded is not None:
            (recorded.out if kind == "O" else recorded.err).append(rest)

    if recorded is not None:
        yield recorded
