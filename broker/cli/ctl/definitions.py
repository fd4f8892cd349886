"""Definitions, out and in (cli layer)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_DATA, EXIT_SOFTWARE, CtlError, WrongUsage
from broker.cli.ctl.message_lines import is_of_messages
from broker.cli.ctl.printing import Done
from broker.cli.ctl.terms import harmless
from broker.cli.ctl.verb import Option, Run, Verb, path

if TYPE_CHECKING:
    from broker.cli.ctl.printing import Result

__all__ = ["VERBS", "read_input", "write_output"]

GROUP: Final = "Definitions"
STANDARD: Final = "-"
ONE: Final = (Option("--only-vhost", "<vhost>", "of one virtual host alone"),)
SUCCESS: Final = range(200, 300)
NAMED_MAX: Final = 5


def read_input(name: str) -> bytes:
    """All of a file, or of standard input.

    Raises:
        CtlError: it cannot be read.

    """
    if name in ("", STANDARD):
        return sys.stdin.buffer.read()

    try:
        with open(name, "rb") as file:
            return file.read()
    except OSError as fault:
        raise CtlError(f"cannot read {name}: {_cause(fault)}", EXIT_DATA) from None


def write_output(name: str, raw: bytes) -> None:
    """Write a file as a whole, or to standard output.

    Raises:
        CtlError: it cannot be written.

    """
    if name == STANDARD:
        sys.stdout.flush()
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
        return

    try:
        with open(name, "wb") as file:
            file.write(raw)
    except OSError as fault:
        raise CtlError(f"cannot write {name}: {_cause(fault)}", EXIT_SOFTWARE) from None


def _cause(fault: OSError) -> str:
    return (fault.strerror or str(fault)).lower()


def _where(run: Run) -> str:
    vhost = run.text("only_vhost")
    return "/definitions" if vhost is None else path("definitions", vhost)


def _check_format(run: Run) -> None:
    if run.printer.form == "erlang":
        raise WrongUsage("definitions are JSON: Erlang's terms are not known here", EXIT_DATA)


def export_definitions(run: Run) -> Result:
    answer = run.client.ask("GET", _where(run))
    if answer.status not in SUCCESS:
        raise CtlError(answer.reason)

    write_output(run["file_path"], answer.raw + b"\n")
    _warn_of_hashes(run, answer.value)
    run.printer.form = "table"
    return Done()


def _warn_of_hashes(run: Run, document: object) -> None:
    """Say whom RabbitMQ would not let in with what was written."""
    from broker.auth.passwords import OWN_HASH

    users = document.get("users", ()) if isinstance(document, dict) else ()
    names = [harmless(str(user["name"])) for user in users if OWN_HASH in user]
    if names:
        more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        run.printer.warn(
            f"RabbitMQ would import {', '.join(names[:NAMED_MAX])}{more} without a password: it"
            " does not know argon2id; with auth.password_hashing: sha256 new passwords are for both"
        )


def _check_file(run: Run) -> None:
    _check_format(run)
    name = run["file_path"]
    if name not in ("", STANDARD) and not os.path.exists(name):
        raise WrongUsage(f"Bad argument: File {name} does not exist", EXIT_DATA)


def import_definitions(run: Run) -> Result:
    text = read_input(run["file_path"])
    if is_of_messages(text):
        raise CtlError("it holds messages, and no definitions: import_messages takes it", EXIT_DATA)

    answer = run.client.ask("POST", _where(run), text)
    if answer.status not in SUCCESS:
        raise CtlError(answer.reason, EXIT_DATA)

    run.printer.form = "table"
    return Done()


def _export_banner(run: Run) -> str:
    if run["file_path"] == STANDARD:
        return ""

    return f'Exporting definitions in JSON to a file at "{run["file_path"]}" ...'


def _import_banner(run: Run) -> str:
    if run["file_path"] in ("", STANDARD):
        return "Importing definitions in JSON from standard input ..."

    return f'Importing definitions in JSON from a file at "{run["file_path"]}" ...'


VERBS: Final = (
    Verb(
        "export_definitions",
        GROUP,
        "Exports definitions as JSON to a file, or to standard output where it is '-'.",
        "<file_path>",
        export_definitions,
        _export_banner,
        ONE,
        check=_check_format,
    ),
    Verb(
        "import_definitions",
        GROUP,
        "Imports definitions from a JSON file, or from standard input.",
        "[file_path]",
        import_definitions,
        _import_banner,
        (*ONE, Option("--skip-if-unchanged", text="accepted, for scripts: what is there stays")),
        check=_check_file,
    ),
)
