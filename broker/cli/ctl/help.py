"""What help says, in rabbitmqctl's form (cli layer)."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.table import GROUPS, VERBS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.cli.ctl.verb import Option, Verb

__all__ = ["nearest", "overview_text", "verb_text"]

OWN: Final = (
    ("completion", "Prints what makes a shell complete verbs and columns: bash, zsh, fish"),
    ("help", "Displays usage information for a command"),
    ("version", "Displays CLI tools version"),
)
GENERAL: Final = """\
The following options are accepted by all commands, before the command or behind it.

short            | long              | description
-----------------|-------------------|--------------------------------
-?, -h           | --help            | displays command help
-n <node>        | --node <node>     | name of the node; accepted, and only shown
-t <n>           | --timeout <n>     | operation timeout in seconds (60)
-q               | --quiet           | suppress informational messages
-s               | --silent          | suppress informational messages
                 |                   | and table header row
                 | --no-table-headers| suppress table header row
-p <vhost>       | --vhost <vhost>   | virtual host to use (/)
                 | --formatter <f>   | json, table, csv, pretty_table, erlang;
                 |                   | --format is the same

Where the broker is: the socket in its data directory, for whoever may open it, else HTTP.

                 | --data-dir <dir>  | the data directory
                 | --url <url>       | http://host:port, or LEVERET_CTL_URL
                 | --user <name>     | guest, or LEVERET_CTL_USER
                 | --password <text> | guest, or LEVERET_CTL_PASSWORD
                 | --password-file <file>, or LEVERET_CTL_PASSWORD_FILE

With https://host:port:

                 | --ca <file>       | trusted authorities, or LEVERET_CTL_CA (the system's)
                 | --cert <file>     | certificate to show, or LEVERET_CTL_CERT
                 | --key <file>      | its key, or LEVERET_CTL_KEY
                 | --insecure        | take whatever certificate the broker shows
"""


def nearest(name: str, known: Iterable[str]) -> str:
    """What may have been meant; empty for nothing."""
    found = difflib.get_close_matches(name.replace("-", "_"), [*known, *dict(OWN)], 1, 0.7)
    return found[0] if found else ""


def overview_text(program: str) -> str:
    """All verbs, by what they are about."""
    width = max(map(len, VERBS)) + 2
    lines = [
        _bold("Usage"),
        "",
        f"{program} [--node <node>] [--timeout <timeout>] [--quiet] <command> [<command options>]",
        "",
        "Available commands:",
        "",
        f"{_bold('Help')}:",
        "",
        *(f"   {name:<{width}}{text}" for name, text in OWN),
    ]
    for group in GROUPS:
        lines += ["", f"{_bold(group)}:", ""]
        lines += [
            f"   {verb.name:<{width}}{verb.summary.rstrip('.')}"
            for verb in sorted(VERBS.values())
            if verb.group == group
        ]

    lines += ["", f"Use '{program} help <command>' to learn more about a specific command"]
    return "\n".join(lines)


def verb_text(verb: Verb, program: str) -> str:
    """One verb."""
    lines = [_bold("Usage"), "", f"{program} {verb.usage}", "", verb.summary, ""]
    details: list[str] = []
    if verb.columns:
        details += ["<column>", f"\tmust be one of {', '.join(sorted(verb.columns))}", ""]

    for option in verb.options:
        details += [f"{option.name} {option.value}".rstrip(), f"\t{_about(option)}", ""]

    if details:
        lines += [_bold("Arguments and Options"), "", *details]

    lines += [_bold("General Options"), "", GENERAL]
    return "\n".join(lines)


def _about(option: Option) -> str:
    if option.default is None or not option.value:
        return option.text

    return f"{option.text} ({option.default})"


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else text
