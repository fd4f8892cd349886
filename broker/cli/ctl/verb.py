"""What a verb is, and what it has at hand while it runs (cli layer)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from broker.cli.ctl.faults import EXIT_DATA, EXIT_UNAVAILABLE, CtlError, WrongUsage
from broker.cli.ctl.terms import as_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker.cli.ctl.printing import Printer, Result
    from broker.cli.ctl.transport import Answer, Requester

__all__ = ["Option", "Run", "Verb", "Wanted", "json_argument", "path"]

NOT_FOUND: Final = 404
SUCCESS: Final = range(200, 300)


class Option(NamedTuple):
    """An option of one verb.

    Attributes:
        name: with its dashes.
        value: what stands behind it, as help calls it; empty for a switch.
        text: help.
        number: the least and the most that it may be, where it is a whole number.
        choices: the only values, if there are such.
        default: where nobody gives it.

    """

    name: str
    value: str = ""
    text: str = ""
    number: tuple[int, int] | None = None
    choices: tuple[str, ...] = ()
    default: object = None

    @property
    def key(self) -> str:
        """What :class:`Run` calls it."""
        return self.name.lstrip("-").replace("-", "_")


class Verb(NamedTuple):
    """One thing that ctl can do.

    Attributes:
        name: as it is typed.
        group: under which help lists it.
        summary: one sentence.
        words: what stands behind the name: ``<needed>``, ``[may be left out]``, the last of them
            ending in ``...`` where it may be repeated.
        run: does it.
        banner: what is said before, with the names of words and options, ``vhost`` and ``node`` in
            braces.
        options: besides those that all verbs have.
        check: raises WrongUsage where words cannot be right, before anything is said.
        columns: those that a list can show; the words are the columns that are wanted.
        shown: those it shows when none is wanted.
        has_vhost: whether it is about one virtual host.

    """

    name: str
    group: str
    summary: str
    words: str
    run: Callable[[Run], Result]
    banner: str | Callable[[Run], str] = ""
    options: tuple[Option, ...] = ()
    check: Callable[[Run], object] | None = None
    columns: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    has_vhost: bool = False

    @property
    def word_names(self) -> list[str]:
        """The names of the words, without their brackets."""
        return [word.strip("<>[].,") for word in self._parts]

    @property
    def needed_count(self) -> int:
        """How many words there must be."""
        return sum(not word.startswith("[") for word in self._parts)

    @property
    def may_repeat(self) -> bool:
        """Whether the last word may stand there more than once."""
        return self.words.endswith(("...", "...]"))

    @property
    def _parts(self) -> list[str]:
        return self.words.replace(" ...", "...").split()

    @property
    def usage(self) -> str:
        """The line that shows how it is called, without the program."""
        parts = [self.name]
        if self.has_vhost:
            parts.append("[--vhost <vhost>]")

        parts += [
            f"[{one.name} {one.value}]" if one.value else f"[{one.name}]" for one in self.options
        ]
        if self.words:
            parts.append(self.words)

        return " ".join(parts)


class Wanted(NamedTuple):
    """What the command line says.

    Attributes:
        words: what stood behind the verb, by name.
        more: the words in the place of the one that may be repeated.
        options: by key; those that nobody gave are None, switches are false.
        vhost: the virtual host in question.

    """

    words: Mapping[str, str] = {}
    more: Sequence[str] = ()
    options: Mapping[str, object] = {}
    vhost: str = "/"


class Run:
    """A verb on its way.

    Args:
        verb: which.
        wanted: what the command line says.
        client: asks the broker.
        printer: shows the result.

    """

    def __init__(self, verb: Verb, wanted: Wanted, client: Requester, printer: Printer) -> None:
        self.verb = verb
        self.words = wanted.words
        self.more = list(wanted.more)
        self.options = wanted.options
        self.vhost = wanted.vhost
        self.client = client
        self.printer = printer
        self.node_given = ""

    def __getitem__(self, name: str) -> str:
        """A word; empty where it was left out."""
        return self.words.get(name, "")

    def has(self, name: str) -> bool:
        """Whether a word is there."""
        return name in self.words

    def text(self, option: str) -> str | None:
        """What an option says."""
        value = self.options.get(option)
        return None if value is None else str(value)

    def number(self, option: str, default: int = 0) -> int:
        """The number that an option says."""
        value = self.options.get(option)
        return value if isinstance(value, int) else default

    def flag(self, option: str) -> bool:
        """Whether a switch is on."""
        return bool(self.options.get(option))

    def check(self) -> None:
        """Look at the words before anything is done.

        Raises:
            WrongUsage: they cannot be right.

        """
        if self.verb.check is not None:
            self.verb.check(self)
        elif self.verb.columns:
            _ = self.wanted_columns

    @property
    def wanted_columns(self) -> list[str]:
        """The columns to show.

        Raises:
            WrongUsage: there is none of such a name.

        """
        # RabbitMQ: columns may be joined by commas too.
        names = [name for word in self.more for name in word.split(",") if name]
        unknown = [name for name in names if name not in self.verb.columns]
        if unknown:
            raise WrongUsage(f"Info key(s) {','.join(unknown)} are not supported")

        return names or list(self.verb.shown)

    @property
    def banner(self) -> str:
        """What is said before; empty for nothing."""
        banner = self.verb.banner
        if callable(banner):
            return banner(self)

        if "{node}" in banner:
            banner = banner.replace("{node}", self.node)

        known = {**self.options, **self.words, "vhost": self.vhost, "more": ", ".join(self.more)}
        return banner.format_map({name: as_cell(value) for name, value in known.items()})

    # -- requests

    @property
    def node(self) -> str:
        """The name of the node, as it was given, or as the broker tells it."""
        if not self.node_given:
            self.node_given = str(self.get("/overview?columns=node").get("node", ""))

        return self.node_given

    def get(self, where: str) -> dict[str, object]:
        """An object.

        Raises:
            CtlError: it is not there.

        """
        value = self.demand("GET", where)
        if isinstance(value, dict):
            return value

        raise CtlError(f"{self.client.place.name} is no HTTP API of a broker", EXIT_DATA)

    def rows(self, where: str) -> list[dict[str, object]]:
        """A list of objects.

        Raises:
            CtlError: it is not there.

        """
        value = self.demand("GET", where)
        if isinstance(value, list):
            return value

        raise CtlError(f"{self.client.place.name} is no HTTP API of a broker", EXIT_DATA)

    def demand(
        self, method: str, where: str, body: object = None, *, missing: CtlError | None = None
    ) -> object:
        """A request that has to succeed; the value of its answer.

        Args:
            method: of HTTP.
            where: behind ``/api``.
            body: becomes JSON.
            missing: what to raise where something is not there.

        Raises:
            CtlError: it does not.

        """
        answer = self.client.ask(method, where, body)
        if answer.status in SUCCESS:
            return _value_of(answer)

        if answer.status == NOT_FOUND and missing is not None:
            raise missing

        if answer.status == NOT_FOUND and self.is_vhost_missing:
            raise self.no_vhost()

        raise CtlError(answer.reason or f"the broker answers {answer.status}", EXIT_UNAVAILABLE)

    @property
    def is_vhost_missing(self) -> bool:
        """Whether the verb is about a virtual host that is not there."""
        if not self.verb.has_vhost:
            return False

        return self.client.ask("GET", path("vhosts", self.vhost)).status == NOT_FOUND

    def no_vhost(self, status: int = EXIT_DATA) -> CtlError:
        """The error for a virtual host that is not there."""
        return CtlError(f"Virtual host '{self.vhost}' does not exist", status)

    def check_vhost(self) -> None:
        """Demand that the virtual host is there."""
        if self.is_vhost_missing:
            raise self.no_vhost()


def _value_of(answer: Answer) -> object:
    try:
        return answer.value
    except ValueError:
        raise CtlError(
            "what came back is no JSON: is this a broker's HTTP API?", EXIT_DATA
        ) from None


def path(*segments: str) -> str:
    """A path of the API; names are quoted."""
    return "".join(
        f"/{quote(segment.encode('utf-8', 'surrogateescape'), safe='')}" for segment in segments
    )


def json_argument(text: str) -> object:
    """A word that is JSON.

    Raises:
        CtlError: it is not.

    """
    try:
        value: object = json.loads(text)
        json.dumps(value, allow_nan=False)
    except ValueError as fault:
        raise CtlError(f"JSON decoding error. Reason: {fault}") from None
    except RecursionError:
        raise CtlError("JSON decoding error. Reason: it is nested too deeply") from None

    return value
