"""Who may do what, found out by trying it: the rows of docs/authorisation.md.

What a tag lets in to stands in a table here, and tests/management/test_http_roles.py asks every
route as every kind of user whether it is true. What a right is needed for is found out here: by
doing everything with each of the eight sets of rights.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.management.app import ROUTER
from tests.helpers.core import raw_properties
from tests.helpers.http_api import http_broker
from tests.helpers.methods import CLIENT_METHODS
from tests.helpers.rights import BobScene
from tests.helpers.session import method, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.helpers.http_api import HTTPClient
    from tests.helpers.rights import Rights

__all__ = [
    "ADMIN",
    "HIDDEN",
    "LETTERS",
    "MONITOR",
    "POLICY",
    "REFUSALS",
    "amqp_rows",
    "http_rights_rows",
    "role_rows",
]

# -- HTTP: what a tag lets in to

LETTERS: Final = {
    "anyone": "N",
    "management": "A",
    "vhost": "V",
    "vhost-or-monitoring": "VV",
    "monitoring": "M",
    "policymaker": "G",
    "policymaker-in-vhost": "P",
    "administrator": "ADM",
}

# What a user with one tag is told where a route does not let them in; nothing where it does. Those
# named "in" have rights in the virtual host of the path, the others have none.
MONITOR: Final = "Not monitor user"
ADMIN: Final = "Not administrator user"
POLICY: Final = "User not authorised to access object"
HIDDEN: Final = "Not Found"

REFUSALS: Final[dict[str, dict[str, str]]] = {
    "nobody": dict.fromkeys(("A", "V", "VV", "M", "G", "P", "ADM"), ""),
    "untagged": dict.fromkeys(("A", "V", "VV", "M", "G", "P", "ADM"), "Not management user"),
    "management": {"V": HIDDEN, "VV": HIDDEN, "M": MONITOR, "G": POLICY, "P": POLICY, "ADM": ADMIN},
    "management-in": {"M": MONITOR, "G": POLICY, "P": POLICY, "ADM": ADMIN},
    "policymaker": {"V": HIDDEN, "VV": HIDDEN, "M": MONITOR, "P": HIDDEN, "ADM": ADMIN},
    "policymaker-in": {"M": MONITOR, "ADM": ADMIN},
    "monitoring": {"V": HIDDEN, "G": POLICY, "P": POLICY, "ADM": ADMIN},
    "monitoring-in": {"G": POLICY, "P": POLICY, "ADM": ADMIN},
    "administrator": {},
}

YES: Final = "yes"
NO: Final = "-"


def role_rows() -> Iterator[tuple[str, ...]]:
    """Route, and for each kind of user whether it lets them in."""
    for route in sorted(ROUTER.routes, key=lambda one: (one.path, one.method)):
        letter = LETTERS[route.access]
        said = (NO if letter in refusals else YES for refusals in REFUSALS.values())
        yield (f"`{route.method} {route.path}`", *said)


# -- eight sets of rights

Has = tuple[bool, bool, bool]
"""Whether there is configure, write and read."""

SETS: Final[tuple[Has, ...]] = tuple(
    (configure, write, read) for configure, write, read in product((False, True), repeat=3)
)


def _patterns(rights: Has) -> Rights:
    configure, write, read = (".*" if right else "" for right in rights)
    return configure, write, read


def _needed(outcomes: dict[Has, bool]) -> str:
    """The smallest sets that are enough, in words; checks that more is never less."""
    enough = [rights for rights, is_in in outcomes.items() if is_in]
    for rights in enough:
        wider = [
            other for other in SETS if all(b or not a for a, b in zip(rights, other, strict=True))
        ]
        assert all(outcomes[other] for other in wider), "more rights let in to less"

    least = [
        rights
        for rights in enough
        if not any(other != rights and _is_within(other, rights) for other in enough)
    ]
    names = ("configure", "write", "read")
    words = [" and ".join(n for n, has in zip(names, one, strict=True) if has) for one in least]
    return "nothing" if words == [""] else " or ".join(sorted(words)) or "refused to all"


def _is_within(rights: tuple[bool, ...], others: tuple[bool, ...]) -> bool:
    return all(other or not right for right, other in zip(rights, others, strict=True))


# -- AMQP

ARGUMENTS: Final[dict[str, dict[str, object]]] = {
    "exchange.declare": {"exchange": "new", "type": "fanout"},
    "exchange.delete": {"exchange": "x"},
    "exchange.bind": {"destination": "x", "source": "h"},
    "exchange.unbind": {"destination": "x", "source": "h"},
    "queue.declare": {"queue": "new"},
    "queue.bind": {"queue": "q", "exchange": "x"},
    "queue.unbind": {"queue": "q", "exchange": "x"},
    "queue.purge": {"queue": "q"},
    "queue.delete": {"queue": "q"},
    "basic.consume": {"queue": "q"},
    "basic.get": {"queue": "q"},
    "channel.flow": {"active": True},
    "connection.update-secret": {"new_secret": "s", "reason": "r"},
}

HANDSHAKE: Final = frozenset(
    {"connection.start-ok", "connection.secure-ok", "connection.tune-ok", "connection.open"}
)
"""Before these are done there are no rights: section C.3 to C.5."""


class Trial(NamedTuple):
    """Something that is tried."""

    name: str
    data: bytes


def _trials() -> Iterator[Trial]:
    for name in CLIENT_METHODS:
        if name in HANDSHAKE:
            continue

        if name == "basic.publish":
            yield Trial("`basic.publish`", publish(1, "q"))
            yield Trial("`basic.publish`, with CC", publish(1, "q", b"", _cc("q")))
            continue

        channel = 0 if name.startswith("connection.") else 1
        yield Trial(f"`{name}`", method(channel, name, **ARGUMENTS.get(name, {})))

    for kind, key in (("exchange", "alternate-exchange"), ("queue", "x-dead-letter-exchange")):
        extra: dict[str, object] = {kind: "new", "arguments": {key: "other"}}
        if kind == "exchange":
            extra["type"] = "fanout"

        name = f"{kind}.declare"
        yield Trial(f"`{name}`, with {key}", method(1, name, **extra))
        there = {"exchange": "x"} if kind == "exchange" else {"queue": "q"}
        yield Trial(f"`{name}`, passive", method(1, name, passive=True, **there))

    yield Trial("`queue.declare`, named by the broker", method(1, "queue.declare"))


def _cc(key: str) -> bytes:
    return raw_properties(headers={"CC": [key]})


def amqp_rows() -> Iterator[tuple[str, str]]:
    """Method, and which rights it needs on what it names."""
    for trial in _trials():
        outcomes = {}
        for rights in SETS:
            said = BobScene().said(_patterns(rights), trial.data)
            outcomes[rights] = not said.startswith("ACCESS_REFUSED")

        yield trial.name, _needed(outcomes)


# -- HTTP within a virtual host

BODIES: Final[dict[str, object]] = {
    "PUT /exchanges/:vhost/:exchange": {"type": "direct"},
    "PUT /queues/:vhost/:queue": {},
    "POST /queues/:vhost/:queue/actions": {"action": "sync"},
    "POST /exchanges/:vhost/:exchange/publish": {
        "routing_key": "q",
        "payload": "x",
        "payload_encoding": "string",
        "properties": {},
    },
    "POST /queues/:vhost/:queue/get": {
        "count": 1,
        "ackmode": "ack_requeue_false",
        "encoding": "auto",
    },
    "POST /queues/:vhost/:queue/move": {"destination": "r"},
    "POST /queues/:vhost/:queue/messages": {
        "messages": [{"payload": "x", "payload_encoding": "string", "properties": {}}]
    },
    "POST /queues/:vhost/:queue/redrive": {},
    "POST /bindings/:vhost/e/:source/:kind/:target": {"routing_key": "k"},
}

NAMES: Final = {
    ":vhost": "%2F",
    ":exchange": "x",
    ":source": "x",
    ":queue": "q",
    ":target": "q",
    ":kind": "q",
    ":properties": "k",
}


async def http_rights_rows() -> list[tuple[str, str]]:
    """Route of a virtual host, and which rights it needs of an administrator."""
    rows = []
    async with http_broker() as guest:
        await guest.put("/users/bob", {"password": "guest", "tags": "administrator"})
        # Quickly hashed.
        users = guest.node.users.users
        users["bob"].password_hash = users["guest"].password_hash
        bob = guest.as_user("bob", "guest")
        for route in sorted(ROUTER.routes, key=lambda one: (one.path, one.method)):
            if route.access != "vhost":
                continue

            outcomes = {}
            for rights in SETS:
                outcomes[rights] = await _is_let_in(
                    guest, bob, f"{route.method} {route.path}", rights
                )

            rows.append((f"`{route.method} {route.path}`", _needed(outcomes)))

    return rows


async def _is_let_in(guest: HTTPClient, bob: HTTPClient, route: str, rights: Has) -> bool:
    vhost = guest.node.vhosts["/"]
    if "x" not in vhost.exchanges:
        await guest.put("/exchanges/%2F/x", {"type": "direct"})

    for name in ("q", "r"):
        if name not in vhost.queues:
            await guest.put(f"/queues/%2F/{name}", {})

    await guest.post("/bindings/%2F/e/x/q/q", {"routing_key": "k"})
    configure, write, read = _patterns(rights)
    guest.node.users.set_permissions("bob", vhost="/", configure=configure, write=write, read=read)
    verb, _, path = route.partition(" ")
    segments = [NAMES.get(segment, segment.lstrip(":")) for segment in path.split("/")]
    answer = await bob.ask(verb, "/".join(segments), BODIES.get(route))
    # A request that makes no sense is refused before anybody looks at rights.
    assert answer.status not in (400, 500), (route, answer)
    # Where there are many answers in one, it says which were refused.
    return answer.status != 401 and "refused for user" not in str(answer.value)
