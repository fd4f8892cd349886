"""Exchanges, queues, bindings and policies as a whole: in, out, and compared. Layer: testing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from broker.core.exchange_commands import BindingRequest, delete_exchange, unbind
from broker.management.bindings import bindings_of
from broker.management.definition_rows import sections_of
from broker.management.definitions_import import Importer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.core.node import Node
    from broker.core.vhost import VirtualHost
    from broker.management.site import Runner
    from broker.testing.stage import Stage
    from broker.testing.waiting import Waited

    Definitions = Mapping[str, object] | str | os.PathLike[str]
    Row = dict[str, object]
    Keyed = dict[tuple[str, ...], Row]

__all__ = ["Topology", "TopologyDiff"]

SECTIONS: Final = ("parameters", "policies", "queues", "exchanges", "bindings")
KNOWN: Final = frozenset(SECTIONS) | {
    *("users", "vhosts", "permissions", "topic_permissions", "global_parameters", "metadata"),
    *("rabbit_version", "rabbitmq_version", "product_name", "product_version", "explanation"),
    *("rabbitmq_definition_format", "original_cluster_name", "original_vhost_name", "exported_at"),
    *("description", "default_queue_type", "tracing", "limits", "vhost_limits", "tags"),
}
"""What definitions of RabbitMQ may have."""

NEEDED: Final = {
    "queues": ("name",),
    "exchanges": ("name",),
    "policies": ("name",),
    "bindings": ("source", "destination_type", "destination", "routing_key"),
}
VHOST: Final = "vhost"
DEFAULT_VHOST: Final = "/"
IMPLIED: Final = {"x-queue-type": "classic"}
"""Arguments that say nothing: exports of RabbitMQ 4 have them where nobody asked for them."""

T = TypeVar("T")


class TopologyDiff(NamedTuple):
    """What differs between a virtual host and an export of another broker.

    Attributes:
        missing: what the export has and the program did not declare.
        extra: what the program declared and the export does not have.
        different: what both have, but not alike: declaring it there is refused with 406.

    """

    missing: tuple[str, ...]
    extra: tuple[str, ...]
    different: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.different)

    def __str__(self) -> str:
        lines = [f"only in the export: {one}" for one in self.missing]
        lines += [f"only declared by the program: {one}" for one in self.extra]
        lines += [f"different: {one}" for one in self.different]
        return "\n".join(lines) or "no difference"


class _Target:
    """A virtual host under test, for who imports definitions."""

    def __init__(self, node: Node, runner: Runner) -> None:
        self._node = node
        self._runner = runner

    @property
    def node(self) -> Node:
        return self._node

    @property
    def runner(self) -> Runner:
        return self._runner

    async def change(self, command: Callable[[], T], vhost: VirtualHost | None = None) -> T:
        outcome: list[T] = []
        self._runner.run(lambda: outcome.append(command()))
        return outcome[0]


class Topology:
    """The topology of one virtual host.

    Where definitions are asked for, this may be the path of a JSON or YAML file, or what is in one:
    of a whole broker (``rabbitmqctl export_definitions``) or of one virtual host.
    """

    def __init__(self, stage: Stage, vhost: str) -> None:
        self._stage = stage
        self._vhost = vhost

    def load(self, definitions: Definitions, *, vhost: str = "") -> Waited:
        """Declare what definitions hold, here. In a coroutine, await it.

        Args:
            definitions: see above. Users and their rights are left out.
            vhost: the virtual host of the export to take; the only one, or ``/``, if not named.

        Raises:
            BadRequest: with all that is wrong with them.

        """
        document = _of_one_vhost(_read(definitions), vhost)
        return self._stage.wait(lambda: self._import(document), "topology.load()")

    async def load_here(self, definitions: Definitions) -> None:
        """The same, in the broker's own loop."""
        await self._import(_of_one_vhost(_read(definitions), ""))

    async def _import(self, document: Row) -> None:
        node = self._stage.node
        target = _Target(node, self._stage.player.app.pump)
        await Importer(target, document, node.vhosts[self._vhost], by="").run()

    def snapshot(self) -> Row:
        """All that is declared here, as definitions; without messages."""

        def read() -> Row:
            node = self._stage.node
            sections = sections_of(node, node.vhosts[self._vhost])
            return {name: list(rows) for name, rows in sections.items()}

        return self._stage.call(read)

    def restore(self, snapshot: Mapping[str, object]) -> Waited:
        """Be as a snapshot says: what is not in it goes, with its messages, what lacks comes back.

        Queues that are as they were keep their messages. In a coroutine, await it.
        """
        document = _of_one_vhost(dict(snapshot), "")
        return self._stage.wait(lambda: self._restore(document), "topology.restore()")

    async def _restore(self, document: Row) -> None:
        wanted = _keyed(document)
        now = _keyed(self.snapshot())
        stale = {key for key, row in now.items() if wanted.get(key) != row}
        self._stage.call(lambda: self._remove(stale))
        await self._import(document)

    def _remove(self, stale: set[tuple[str, ...]]) -> None:
        node = self._stage.node
        vhost = node.vhosts[self._vhost]
        actor = node.own_actor(vhost)
        for binding in list(bindings_of(vhost)):
            kind = "queue" if binding.destination.is_queue else "exchange"
            ends = (binding.source.name, kind, binding.destination.name, binding.routing_key)
            if any(key[:5] == ("binding", *ends) for key in stale):
                unbind(
                    vhost,
                    actor,
                    BindingRequest(
                        binding.source.name,
                        binding.destination.name,
                        binding.destination.is_queue,
                        binding.routing_key,
                        binding.arguments,
                    ),
                )

        for key in stale:
            if key[0] == "queue" and key[1] in vhost.queues:
                vhost.remove_queue(vhost.queues[key[1]])
            elif key[0] == "exchange":
                delete_exchange(vhost, actor, key[1], if_unused=False)
            elif key[0] == "policy":
                vhost.clear_policy(key[1])

    def diff(self, definitions: Definitions, *, vhost: str = "") -> TopologyDiff:
        """Compare what the program has declared here with an export, of production say.

        Args:
            definitions: see above.
            vhost: the virtual host of the export to compare with.

        """
        there = _keyed(_of_one_vhost(_read(definitions), vhost), with_policies=False)
        here = _keyed(self.snapshot(), with_policies=False)
        return TopologyDiff(
            missing=tuple(_name(key) for key in there if key not in here),
            extra=tuple(_name(key) for key in here if key not in there),
            different=tuple(
                f"{_name(key)}: {_differences(here[key], there[key])}"
                for key in here
                if key in there and here[key] != there[key]
            ),
        )

    def assert_fits(self, definitions: Definitions, *, vhost: str = "") -> None:
        """Assert that the program declares nothing that an export lacks or has otherwise.

        What is in the export alone is no fault: other programs may need it.
        """
        found = self.diff(definitions, vhost=vhost)._replace(missing=())
        if found:
            raise AssertionError(f"the program does not fit the export\n{found}")


def _read(definitions: Definitions) -> Row:
    if isinstance(definitions, Mapping):
        return dict(definitions)

    path = os.fspath(definitions)
    with open(path, encoding="utf-8-sig") as file:
        text = file.read()

    if text.lstrip().startswith("{"):
        document: object = json.loads(text)
        assert isinstance(document, dict)
        return document

    from broker.config.plain_yaml import mapping_from_yaml

    return mapping_from_yaml(text, path)


def _rows(document: Mapping[str, object], section: str) -> list[Row]:
    rows = document.get(section, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"definitions: {section} is not a list of objects")

    needed = NEEDED.get(section, ())
    for number, row in enumerate(rows):
        missing = [name for name in needed if not isinstance(row.get(name), str)]
        if missing:
            raise ValueError(f"definitions: {section}[{number}] has no {missing[0]}: {row}")

    return [dict(row) for row in rows]


def _of_one_vhost(document: Row, vhost: str) -> Row:
    """The part of definitions about one virtual host, which is not named in it any more."""
    named = {
        str(row[VHOST]) for section in SECTIONS for row in _rows(document, section) if VHOST in row
    }
    if vhost and named and vhost not in named:
        there = ", ".join(sorted(named))
        raise ValueError(f"definitions: nothing is of vhost {vhost!r}; there are: {there}")

    unknown = sorted(set(document) - KNOWN)
    if unknown and not set(document) & KNOWN:
        near = get_close_matches(unknown[0], KNOWN, n=1)
        hint = f"; is {near[0]} meant?" if near else f"; there are {', '.join(SECTIONS)}"
        raise ValueError(f"definitions: {unknown[0]} is no section of them{hint}")

    if not vhost and named:
        vhost = named.pop() if len(named) == 1 else DEFAULT_VHOST

    part: Row = {}
    for section in SECTIONS:
        part[section] = [
            {key: value for key, value in row.items() if key != VHOST}
            for row in _rows(document, section)
            if row.get(VHOST, vhost) == vhost
        ]

    return part


def _keyed(document: Mapping[str, object], *, with_policies: bool = True) -> Keyed:
    """What there is, by what it is called, in a form that can be compared."""
    found: Keyed = {}
    for row in _rows(document, "exchanges"):
        found["exchange", str(row["name"])] = _traits(row, "type", "durable", "auto_delete")
    for row in _rows(document, "queues"):
        traits = _traits(row, "durable", "auto_delete")
        arguments = traits["arguments"]
        assert isinstance(arguments, dict)
        traits["type"] = row.get("type") or arguments.get("x-queue-type") or "classic"
        found["queue", str(row["name"])] = traits
    for row in _rows(document, "bindings"):
        arguments = row.get("arguments") or {}
        ends = (row["source"], row["destination_type"], row["destination"], row["routing_key"])
        # Arguments are a part of what a binding is called: there may be several between two ends.
        name = (*(str(one) for one in ends), json.dumps(arguments, sort_keys=True, default=str))
        found["binding", *name] = {}
    for row in _rows(document, "policies") if with_policies else ():
        found["policy", str(row["name"])] = {
            key: row.get(key) for key in ("pattern", "apply-to", "priority", "definition")
        }

    return found


def _traits(row: Row, *names: str) -> Row:
    arguments = row.get("arguments") or {}
    assert isinstance(arguments, dict)
    said = {key: value for key, value in arguments.items() if IMPLIED.get(key) != value}
    return {**{name: row.get(name, False) for name in names}, "arguments": said}


def _name(key: tuple[str, ...]) -> str:
    if key[0] != "binding":
        return f"{key[0]} {key[1]!r}"

    _, source, kind, destination, routing_key, arguments = key
    more = "" if arguments == "{}" else f" and {arguments}"
    return f"binding {source!r} -> {kind} {destination!r} with key {routing_key!r}{more}"


def _differences(here: Row, there: Row) -> str:
    names: Iterable[str] = [name for name in here if here[name] != there.get(name)]
    return ", ".join(f"{name} is {here[name]!r}, there {there.get(name)!r}" for name in names)
