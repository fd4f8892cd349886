"""ctl beside rabbitmqctl: the same commands, against what RabbitMQ 3.10's tool made of them.

The recording has standard output, standard error and exit statuses of a session. Output and
statuses have to be the same to the letter. Errors are one line here, with what RabbitMQ says in it.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from broker.embedded import Broker
from tests.helpers.ctl import Ctl, Recorded, read_recording

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets")

RECORDING: Final = Path(__file__).with_name("golden") / "rabbitmqctl-3.10.txt"
SESSION: Final = tuple(read_recording(RECORDING))

ORDER: Final = frozenset({"list_exchanges"})
"""RabbitMQ 3.10 has these in no order; here they are sorted, as in 4.x."""

OTHER_TEXTS: Final = {
    "failed to authenticate": "failed to authenticate user \"ctl_u\": user 'ctl_u' - invalid",
    "Validation failed": "Validation failed: component nonsense not found",
    "User ctl_nobody does": 'User "ctl_nobody" does not exist',
    "JSON decoding error": "JSON decoding error. Reason: ",
    "not_found": "no queue 'ctl_none' in vhost 'ctl_v'",
    "Invalid options for this command: --priority": "Invalid value for '--priority'",
    "Invalid options for this command: --nonsense": "No such option '--nonsense'",
    "argument validation): Bad argument.": "argument validation): Bad argument: 'nonsense' is no",
    "Command 'list_qeues'": "Command 'list_qeues' not found.",
}
"""Texts that have more to say here, by how RabbitMQ's begin."""


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    directory = tmp_path_factory.mktemp("data")
    config = {"storage": {"data_dir": str(directory)}}
    with Broker.in_thread(config, log_level="error"):
        yield Ctl("--data-dir", str(directory), "-n", "NODE")


def expected_error(recorded: Recorded) -> str:
    for beginning, text in OTHER_TEXTS.items():
        if beginning in recorded.error:
            return text

    return recorded.error.removeprefix("Error: ")


def test_a_session_is_as_with_rabbitmqctl(ctl: Ctl) -> None:
    assert len(SESSION) > 100
    wrong: list[str] = []
    for recorded in SESSION:
        verb = recorded.command.split()[0]
        outcome = ctl.line(recorded.command)
        found, wanted = outcome.lines, recorded.out
        if verb in ORDER:
            found, wanted = (
                sorted(line.strip(",") for line in found),
                sorted(line.strip(",") for line in wanted),
            )

        if outcome.status != recorded.status:
            wrong.append(f"{recorded.command}: {outcome.status} instead of {recorded.status}")

        if found != wanted:
            wrong.append(f"{recorded.command}: {found} instead of {wanted}")

        error = " ".join(outcome.err.split())
        if expected_error(recorded) not in error:
            wrong.append(f"{recorded.command}: {error!r} has not {expected_error(recorded)!r}")

    assert not wrong, "\n".join(wrong)


def test_a_recording_can_be_missed(ctl: Ctl) -> None:
    """The comparison sees a status, a line and an error that are others."""
    outcome = ctl.line("list_users -q")
    assert outcome.lines != ["user\ttags", "guest\t[management]"]
    assert expected_error(Recorded("x", 1, [], ["Error:", "Queue not found"])) == "Queue not found"
    assert (
        Recorded("x", 64, [], ["Error (a): b.", "Arguments given:", "x"]).error == "Error (a): b."
    )
