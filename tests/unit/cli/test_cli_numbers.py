"""Numbers on the command line: whatever is given, one line says what it may be, and nothing is
done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from broker.cli.ctl.faults import EXIT_DATA, EXIT_UNAVAILABLE, EXIT_USAGE
from broker.cli.ctl.table import VERBS
from broker.cli.main import cli
from broker.cli.numbers import COUNT_MAX, SECONDS_MAX
from tests.helpers.ctl import Ctl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOWHERE = Ctl("--url", "http://127.0.0.1:1")
LONG = "9" * 5000
NO_NUMBERS = ("x", "", "nan", "inf", "1.5", "1e3", "0x10", LONG)
NO_SECONDS = ("x", "", "nan", "inf", "-inf", "-1", "-0.001", "0", "1e300", "1000001", LONG)


def number_options() -> Iterator[tuple[str, str, int, int]]:
    for verb in VERBS.values():
        for option in verb.options:
            if option.number is not None:
                yield verb.name, option.name, *option.number


OPTIONS = list(number_options())


def words_of(verb: str) -> list[str]:
    return ["w"] * VERBS[verb].needed_count


def test_every_option_that_calls_itself_a_number_has_bounds() -> None:
    words = {"<number>", "<pid>", "<bytes>", "<milliseconds>", "<priority>"}
    named = {
        (verb.name, one.name)
        for verb in VERBS.values()
        for one in verb.options
        if one.value in words
    }
    assert named == {(verb, option) for verb, option, _, _ in OPTIONS}
    assert len(named) >= 15


@pytest.mark.parametrize(
    ("verb", "option", "least", "most"), OPTIONS, ids=[f"{one[0]}{one[1]}" for one in OPTIONS]
)
def test_a_verb_takes_no_number_that_makes_no_sense(
    verb: str, option: str, least: int, most: int
) -> None:
    for text in (*NO_NUMBERS, str(least - 1), str(most + 1)):
        outcome = NOWHERE(verb, option, text, *words_of(verb))
        assert outcome.status == EXIT_USAGE, text
        assert outcome.out == ""
        line = outcome.err.splitlines()[0]
        assert line.startswith(f"Error (argument validation): Invalid value for '{option}': ")
        assert "is no whole number" in line or f"is not between {least} and {most}" in line

    for value in (least, most):
        outcome = NOWHERE("-t", "0.01", verb, option, str(value), *words_of(verb))
        assert "Invalid value" not in outcome.err


@pytest.mark.parametrize("text", NO_SECONDS)
@pytest.mark.parametrize("place", ["before", "behind"])
def test_ctl_takes_no_timeout_that_makes_no_sense(text: str, place: str) -> None:
    given = ("--timeout", text)
    words = (*given, "list_queues") if place == "before" else ("list_queues", *given)
    outcome = NOWHERE(*words)
    assert (outcome.status, outcome.out) == (EXIT_USAGE, "")
    line = outcome.err.splitlines()[0]
    assert line.startswith("Error (argument validation): Invalid value for '-t' / '--timeout': ")
    assert "seconds" in line


@pytest.mark.parametrize("text", ["0.01", "1", f"{SECONDS_MAX:.0f}"])
def test_ctl_takes_other_timeouts(text: str) -> None:
    outcome = NOWHERE("-t", text, "list_queues", "-q")
    assert outcome.status == EXIT_UNAVAILABLE


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        (f"peek q {LONG}", EXIT_USAGE, "the position is a number"),
        ("peek q 0", EXIT_USAGE, "the position is a number"),
        ("peek q -- -1", EXIT_USAGE, "the position is a number"),
        (f"peek q {COUNT_MAX + 1}", EXIT_USAGE, "the position is a number"),
        (f"set_disk_free_limit {LONG}", EXIT_DATA, "is no size"),
        ("set_disk_free_limit 99999999TiB", EXIT_DATA, "is more than 1024 PiB"),
        ("set_disk_free_limit mem_relative inf", EXIT_DATA, "a fraction is a number"),
        ("set_disk_free_limit mem_relative nan", EXIT_DATA, "a fraction is a number"),
        ("set_vm_memory_high_watermark nan", EXIT_DATA, "between 0.0 and 1.0"),
        ("set_vm_memory_high_watermark absolute 1e9", EXIT_DATA, "is no size"),
        ("set_vhost_limits '{\"max-queues\": NaN}'", EXIT_UNAVAILABLE, "JSON decoding error"),
        ("set_user_limits u '{\"max-channels\": 1e999}'", EXIT_UNAVAILABLE, "JSON decoding error"),
        (f"set_vhost_limits '{'[' * 100_000}'", EXIT_UNAVAILABLE, "JSON decoding error"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_words_that_are_numbers_are_told_from_others(line: str, status: int, text: str) -> None:
    outcome = NOWHERE.line(line)
    assert outcome.status == status
    assert text in outcome.err.splitlines()[0]


@pytest.mark.parametrize("text", ["-5", "0", "nonsense", "", LONG, str(2**40)])
def test_a_pid_file_that_holds_no_pid_is_waited_for(text: str, tmp_path: Path) -> None:
    """Of a negative number, the system would have looked for a group of processes."""
    file = tmp_path / "pid"
    file.write_text(text)
    outcome = NOWHERE("-t", "0.01", "wait", os.fspath(file))
    assert "no pid file" in outcome.err


@pytest.mark.parametrize("text", NO_SECONDS)
def test_ping_takes_no_timeout_that_makes_no_sense(text: str) -> None:
    result = CliRunner().invoke(cli, ["ping", "--timeout", text, "--port", "1"])
    assert result.exit_code == 2
    assert "Invalid value for '--timeout': " in result.stderr
    assert "seconds" in result.stderr


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["ping"], "--port"),
        (["serve"], "--port"),
        (["worker", "app:tasks"], "--prefetch"),
        (["worker", "app:tasks"], "--concurrency"),
    ],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("text", [*NO_NUMBERS, "-1", str(10**19)], ids=lambda text: text[:10])
def test_other_commands_take_no_number_that_makes_no_sense(
    words: list[str], option: str, text: str
) -> None:
    result = CliRunner().invoke(cli, [*words, option, text])
    assert result.exit_code == 2
    assert f"'{option}'" in result.stderr
    assert "is no whole number" in result.stderr or "is not between" in result.stderr


@pytest.mark.parametrize("option", ["--grace", "--lease"])
@pytest.mark.parametrize("text", ["x", "nan", "inf", "-1", "1e300"])
def test_a_worker_takes_no_time_that_makes_no_sense(option: str, text: str) -> None:
    result = CliRunner().invoke(cli, ["worker", "app:tasks", option, text])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': " in result.stderr
