"""Messages: browse, move, redrive, export, import (cli layer). None of this is RabbitMQ's."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import urlencode

from broker.cli.ctl.faults import EXIT_DATA, EXIT_SOFTWARE, EXIT_UNAVAILABLE, CtlError, WrongUsage
from broker.cli.ctl.message_lines import fields_in, line_fault, payload_in
from broker.cli.ctl.printing import Done, Rows, Value
from broker.cli.ctl.progress import Progress
from broker.cli.ctl.queues import no_queue
from broker.cli.ctl.verb import Option, Run, Verb, path
from broker.cli.numbers import COUNT_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.cli.ctl.printing import Result

__all__ = ["VERBS"]

GROUP: Final = "Messages"
OK: Final = 200
NOT_FOUND: Final = 404
LOOK_S: Final = 0.1
PAGE: Final = 500
BATCH: Final = 500
BATCH_BYTES: Final = 4 * 2**20
"""What is sent at a time."""

STANDARD: Final = "-"
DEFAULT_EXCHANGE: Final = "amq.default"
COLUMNS: Final = (
    "offset",
    "state",
    "exchange",
    "routing_key",
    "redelivered",
    "payload_bytes",
    "payload",
    "payload_encoding",
    "properties",
    "delivery_count",
    "consumer_tag",
    "connection_name",
)
SHOWN: Final = ("offset", "state", "exchange", "routing_key", "payload_bytes", "payload")
TRUNCATED: Final = 200
"""What of a payload is shown, in bytes, where nobody says otherwise."""

LIMIT: Final = Option("--limit", "<number>", "no more than so many", (1, COUNT_MAX))
OFFSET: Final = Option("--offset", "<number>", "how many to pass by", (0, COUNT_MAX), default=0)
FILTERS: Final = (
    Option("--header", "<name=value>", "only messages with that header"),
    Option("--match-routing-key", "<key>", "only messages that were published with it"),
    Option("--match-exchange", "<exchange>", "only messages that were published to it"),
)
MOVING: Final = (
    *FILTERS,
    LIMIT,
    Option("--rate", "<number>", "no more than so many a second", (1, COUNT_MAX)),
)

Fact = dict[str, object]


def _header(run: Run) -> tuple[str, str] | None:
    text = run.text("header")
    if text is None:
        return None

    name, equals, value = text.partition("=")
    if not name or not equals:
        raise WrongUsage(f"--header {text}: name=value")

    return name, value


# -- browse


def browse(run: Run) -> Result:
    columns = run.wanted_columns
    _queue_of(run)
    query: Fact = {"offset": run.number("offset"), "state": run.text("state")}
    if "payload" in columns:
        query["truncate"] = run.number("truncate")

    return Rows(columns, _row_values(_browsed(run, query, run.number("limit")), columns))


def _row_values(rows: Iterable[Fact], columns: list[str]) -> Iterator[list[object]]:
    for row in rows:
        yield [row.get(name) for name in columns]


def _browsed(run: Run, query: Fact, count: int) -> Iterator[Fact]:
    """Messages of a queue, page by page; count is how many at most."""
    name = run["queue"]
    header = _header(run)
    wanted = {f"header.{header[0]}": header[1]} if header else {}
    for option, key in (("match_routing_key", "routing_key"), ("match_exchange", "exchange")):
        text = run.text(option)
        if text is not None:
            wanted[key] = text

    where = path("queues", run.vhost, name) + "/browse"
    while count > 0:
        page = {**query, **wanted, "limit": min(count, PAGE)}
        value = run.demand("GET", f"{where}?{urlencode(page)}")
        assert isinstance(value, dict)
        yield from value["items"]
        count -= len(value["items"])
        query["offset"] = value["next_offset"]
        if value["next_offset"] is None:
            return


def _queue_of(run: Run) -> Fact:
    name = run["queue"]
    where = path("queues", run.vhost, name)
    answer = run.client.ask("GET", f"{where}?columns=messages,messages_ready")
    value = answer.value
    if answer.status != OK or not isinstance(value, dict):
        raise no_queue(run, name)

    return value


# -- move


def _body(run: Run) -> Fact:
    wanted: Fact = {}
    header = _header(run)
    if header is not None:
        wanted["headers"] = {header[0]: header[1]}

    for option, key in (("match_routing_key", "routing_key"), ("match_exchange", "exchange")):
        text = run.text(option)
        if text is not None:
            wanted[key] = text

    body: Fact = {"filter": wanted} if wanted else {}
    for key in ("limit", "rate"):
        if run.number(key):
            body[key] = run.number(key)

    return body


def _check_target(run: Run) -> None:
    _header(run)
    if run.has("destination") == (run.text("exchange") is not None):
        raise WrongUsage("name a queue to move to, or an exchange with --exchange")


def move(run: Run) -> Result:
    body = _body(run)
    destination = run["destination"]
    exchange = run.text("exchange")
    if exchange is None:
        body["destination"] = destination
    else:
        # As paths of the API call the exchange without a name.
        body["exchange"] = "" if exchange == DEFAULT_EXCHANGE else exchange
        if run.text("routing_key") is not None:
            body["routing_key"] = run.text("routing_key")

    return _move(run, "move", body)


def redrive(run: Run) -> Result:
    return _move(run, "redrive", _body(run))


def _move(run: Run, action: str, body: Fact) -> Result:
    _queue_of(run)
    row = run.demand("POST", path("queues", run.vhost, run["queue"], action), body)
    assert isinstance(row, dict)
    where = path("moves", str(row["id"]))
    progress = Progress("Moving", int(row["total"]))
    try:
        while row["state"] == "running":
            progress.show(_looked_at(row))
            time.sleep(LOOK_S)
            row = run.get(where)
    except KeyboardInterrupt:
        with contextlib.suppress(CtlError):
            run.client.close()
            run.client.ask("DELETE", where)

        raise
    finally:
        progress.end()

    return _outcome(row)


def _looked_at(row: Fact) -> int:
    return sum(int(str(row[name])) for name in ("moved", "refused", "passed"))


def _outcome(row: Fact) -> Result:
    text = f"Moved {row['moved']} messages"
    if row["passed"]:
        text += f", {row['passed']} were not meant"

    if row["refused"]:
        text += f", {row['refused']} stay since no queue took them"

    reason = f": {row['reason']}" if row["reason"] else ""
    if row["state"] != "done":
        raise CtlError(f"the move has {row['state']}{reason} ({text})", EXIT_SOFTWARE)

    return Value(text + reason)


def list_moves(run: Run) -> Result:
    columns = run.wanted_columns
    rows = run.rows("/moves")
    return Rows(columns, ([row.get(name) for name in columns] for row in rows))


def cancel_move(run: Run) -> Result:
    missing = CtlError(f"there is no move {run['id']}: see list_moves", EXIT_UNAVAILABLE)
    run.demand("DELETE", path("moves", run["id"]), missing=missing)
    return Done()


# -- export and import


def export_messages(run: Run) -> Result:
    total = int(str(_queue_of(run)["messages_ready"]))
    limit = run.number("limit") or sys.maxsize
    progress = Progress("Exporting", min(total, limit))
    query: Fact = {"offset": run.number("offset"), "encoding": "base64"}
    count = 0
    with _writable(run["file"]) as file:
        try:
            for row in _browsed(run, query, limit):
                file.write(json.dumps({"message": _line(run, row)}, separators=(",", ":")) + "\n")
                count += 1
                progress.show(count)
        except BrokenPipeError:
            raise CtlError("nobody reads any more", EXIT_SOFTWARE) from None
        finally:
            progress.end()

    if file is sys.stdout:
        run.printer.form = "table"
        return Done()

    return Value(f"Exported {count} messages")


def _line(run: Run, row: Fact) -> Fact:
    """A line as `leveret store export` writes them."""
    return {
        "vhost": run.vhost,
        "queue": run["queue"],
        "exchange": row["exchange"],
        "routing_key": row["routing_key"],
        "redelivered": row["redelivered"],
        "properties": row["properties"],
        "body_base64": row["payload"],
    }


@contextlib.contextmanager
def _writable(name: str) -> Iterator[IO[str]]:
    if name in ("", STANDARD):
        yield sys.stdout
        sys.stdout.flush()
        return

    try:
        file = open(name, "w", encoding="ascii")  # noqa: SIM115
    except OSError as fault:
        raise CtlError(f"cannot write {name}: {fault.strerror}", EXIT_SOFTWARE) from None

    with file:
        yield file


def import_messages(run: Run) -> Result:
    """Each line is published to the queue that it names, or to another: some at a time."""
    progress = Progress("Importing", 0)
    batch = _Batch(run)
    try:
        for number, line in enumerate(_lines_of(run["file"]), start=1):
            if line.strip():
                batch.add(number, line)
                progress.show(batch.done)

        batch.send()
    finally:
        progress.end()

    return Value(f"Imported {batch.done} messages")


class _Batch:
    """Messages for one queue, until they are sent."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._queue = ""
        self._numbers: list[int] = []
        self._messages: list[Fact] = []
        self._bytes = 0
        self.done = 0

    def add(self, number: int, line: bytes) -> None:
        """Take a line; what came before is sent where there is no room for it."""
        try:
            queue, message = self._read(number, line)
        except CtlError:
            # What stands before it counts.
            self.send()
            raise

        is_full = len(self._messages) == BATCH or self._bytes + len(line) > BATCH_BYTES
        if queue != self._queue or is_full:
            self.send()

        self._queue = queue
        self._numbers.append(number)
        self._messages.append(message)
        self._bytes += len(line)

    def _read(self, number: int, line: bytes) -> tuple[str, Fact]:
        fields = fields_in(number, line)
        queue = self._run.text("queue") or fields.get("queue")
        if not isinstance(queue, str):
            raise line_fault(number, "it names no queue: say which with --queue")

        properties = fields.get("properties", {})
        return queue, {"properties": properties, **payload_in(number, fields)}

    def send(self) -> None:
        """Publish what there is."""
        if not self._messages:
            return

        run = self._run
        where = path("queues", run.vhost, self._queue, "messages")
        answer = run.client.ask("POST", where, {"messages": self._messages})
        value = answer.value
        if answer.status == NOT_FOUND:
            raise line_fault(self._numbers[0], no_queue(run, self._queue).text)

        if answer.status != OK or not isinstance(value, dict):
            raise line_fault(self._numbers[0], answer.reason)

        published = value["published"]
        self.done += published
        if value["reason"] is not None:
            raise line_fault(self._numbers[published], str(value["reason"]))

        self._numbers, self._messages, self._bytes = [], [], 0


def _lines_of(name: str) -> Iterator[bytes]:
    if name in ("", STANDARD):
        yield from sys.stdin.buffer
        return

    try:
        file = open(name, "rb")  # noqa: SIM115
    except OSError as fault:
        raise WrongUsage(f"Bad argument: cannot read {name}: {fault.strerror}", EXIT_DATA) from None

    with file:
        yield from file


VERBS: Final = (
    Verb(
        "browse",
        GROUP,
        "Shows messages of a queue, and leaves them as they are.",
        "<queue> [column] ...",
        browse,
        "Browsing queue '{queue}' in vhost '{vhost}' ...",
        (
            LIMIT._replace(default=50),
            OFFSET,
            Option(
                "--state",
                "<ready | unacked | all>",
                "which of them",
                choices=("ready", "unacked", "all"),
                default="ready",
            ),
            Option(
                "--truncate", "<bytes>", "how much of a payload", (0, COUNT_MAX), default=TRUNCATED
            ),
            *FILTERS,
        ),
        columns=COLUMNS,
        shown=SHOWN,
        has_vhost=True,
    ),
    Verb(
        "cancel_move",
        GROUP,
        "Ends a move; what is moved stays moved.",
        "<id>",
        cancel_move,
        "Cancelling move {id} ...",
    ),
    Verb(
        "export_messages",
        GROUP,
        "Writes the ready messages of a queue to a file, or to standard output, as JSON lines.",
        "<queue> [file]",
        export_messages,
        "",
        (
            LIMIT,
            OFFSET,
            *FILTERS,
        ),
        has_vhost=True,
    ),
    Verb(
        "import_messages",
        GROUP,
        "Publishes the messages of a file, or of standard input, to the queues that they name.",
        "[file]",
        import_messages,
        "",
        (Option("--queue", "<queue>", "to this queue, whatever they name"),),
        has_vhost=True,
    ),
    Verb(
        "list_moves",
        GROUP,
        "Lists moves, those that ended among them.",
        "[column] ...",
        list_moves,
        "Listing moves ...",
        columns=(
            "id",
            "user",
            "vhost",
            "source",
            "destination",
            "exchange",
            "routing_key",
            "state",
            "reason",
            "total",
            "moved",
            "refused",
            "passed",
        ),
        shown=("id", "source", "destination", "state", "total", "moved"),
    ),
    Verb(
        "move",
        GROUP,
        "Moves messages to another queue, or publishes them to an exchange.",
        "<queue> [destination]",
        move,
        "Moving messages of queue '{queue}' in vhost '{vhost}' ...",
        (
            Option("--exchange", "<exchange>", "publish them there"),
            Option("--routing-key", "<key>", "with this key instead of their own"),
            *MOVING,
        ),
        check=_check_target,
        has_vhost=True,
    ),
    Verb(
        "redrive",
        GROUP,
        "Brings dead letters back to the queue in which they died first.",
        "<queue>",
        redrive,
        "Redriving messages of queue '{queue}' in vhost '{vhost}' ...",
        MOVING,
        check=_header,
        has_vhost=True,
    ),
)
