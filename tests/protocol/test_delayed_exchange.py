"""Delayed messages as clients see them: declaration, delivery, confirms, returns, transactions.

Section E.12 and scenario S-044.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.wire.properties import set_headers
from broker.wire.tables import table_from_plain
from tests.helpers.core import plain_headers, raw_properties
from tests.helpers.session import World, assert_channel_closed, assert_sent, publish

if TYPE_CHECKING:
    from broker.core.exchange.delayed import DelayedExchange
    from tests.helpers.session import Heard, Session

DECLARE = (40, 10)
BIND = (50, 20)


class Scene:
    """A delayed exchange ``x``, a queue ``q``, and a client with one channel."""

    def __init__(
        self, delayed_type: str = "direct", arguments: dict[str, object] | None = None
    ) -> None:
        self.world = World()
        self.client: Session = self.world.open(1)
        self.client.ask(
            1,
            "exchange.declare",
            exchange="x",
            type="x-delayed-message",
            arguments={"x-delayed-type": delayed_type, **(arguments or {})},
        )
        self.client.ask(1, "queue.declare", queue="q")

    def bind(self, key: str = "k", queue: str = "q") -> None:
        answer = self.client.ask(1, "queue.bind", queue=queue, exchange="x", routing_key=key)
        assert answer.name == "queue.bind-ok"

    def publish(
        self, body: bytes, delay: object = None, *, key: str = "k", mandatory: bool = False
    ) -> None:
        headers = {} if delay is None else {"x-delay": delay}
        self.publish_with(body, headers, key=key, mandatory=mandatory)

    def publish_with(
        self,
        body: bytes,
        headers: dict[str, Any],
        *,
        key: str = "k",
        mandatory: bool = False,
        **properties: Any,
    ) -> None:
        raw = set_headers(raw_properties(**properties), table_from_plain(headers))
        self.client.feed(publish(1, key, body, raw, exchange="x", mandatory=mandatory))

    def get(self, queue: str = "q") -> Heard:
        return self.client.ask(1, "basic.get", queue=queue, no_ack=True)

    def bodies(self, queue: str = "q") -> list[bytes]:
        """Everything that is ready now."""
        found: list[bytes] = []
        while True:
            one = self.get(queue)
            if one.name == "basic.get-empty":
                return found

            found.append(one.body)

    @property
    def delayed_count(self) -> int:
        return cast("DelayedExchange", self.world.vhost.exchanges["x"]).messages_delayed


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.bind()
    return made


# -- declaration: rule E-110

TYPE_TEXT = "Invalid argument, 'x-delayed-type' must be an existing exchange type"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param({}, TYPE_TEXT, id="no type"),
        pytest.param({"x-delayed-type": 5}, TYPE_TEXT, id="type is a number"),
        pytest.param(
            {"x-delayed-type": "x-delayed-message"},
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
            id="delayed delayed",
        ),
        pytest.param(
            {"x-delayed-type": "nothing"}, "unknown exchange type 'nothing'", id="unknown type"
        ),
        pytest.param(
            {"x-delayed-type": "direct", "x-delay-mandatory": 1},
            "Invalid argument, 'x-delay-mandatory' must be a boolean",
            id="mandatory is no boolean",
        ),
        pytest.param(
            {"x-delayed-type": "x-recent-history", "x-recent-history-length": 0},
            "Invalid argument 0, 'x-recent-history-length' must be a positive integer",
            id="the inner type refuses",
        ),
    ],
)
def test_a_declaration_without_use_is_refused(arguments: dict[str, object], text: str) -> None:
    client = World().open(1)
    client.send(1, "exchange.declare", exchange="x", type="x-delayed-message", arguments=arguments)
    assert_channel_closed(client, 1, 406, f"PRECONDITION_FAILED - {text}", DECLARE)


def test_declaring_again_with_another_inner_type_is_no_error(scene: Scene) -> None:
    """Rule E-111."""
    answer = scene.client.ask(
        1,
        "exchange.declare",
        exchange="x",
        type="x-delayed-message",
        arguments={"x-delayed-type": "fanout"},
    )
    assert answer.name == "exchange.declare-ok"


def test_bindings_are_checked_as_the_inner_type_does() -> None:
    """Rule E-111."""
    scene = Scene("x-consistent-hash")
    scene.client.send(1, "queue.bind", queue="q", exchange="x", routing_key="much")
    text = 'PRECONDITION_FAILED - The binding key must be an integer: <<"much">>'
    assert_channel_closed(scene.client, 1, 406, text, BIND)


# -- delays: rules E-112, E-114


def test_a_message_comes_when_it_is_due_and_not_before(scene: Scene) -> None:
    scene.publish(b"late", 200)
    assert scene.delayed_count == 1
    scene.world.wait(0.199)
    assert scene.bodies() == []

    scene.world.wait(0.001)
    came = scene.get()
    assert came.body == b"late"
    assert (came.arguments["exchange"], came.arguments["routing_key"]) == ("x", "k")
    assert plain_headers(came.properties) == {"x-delay": -200}
    assert scene.delayed_count == 0


@pytest.mark.parametrize(
    ("delay", "expected_ms"),
    [
        pytest.param(1, 1, id="the shortest"),
        pytest.param(300_000, 300_000, id="integer"),
        pytest.param(4_294_967_295, 4_294_967_295, id="the longest"),
        pytest.param("300", 300, id="text"),
        pytest.param("+300", 300, id="text with sign"),
        pytest.param("0300", 300, id="text with a zero in front"),
        pytest.param(12.9, 12, id="float"),
        pytest.param(None, 0, id="none"),
        pytest.param(0, 0, id="zero"),
        pytest.param(-5, 0, id="negative"),
        pytest.param("-5", 0, id="negative text"),
        pytest.param(0.9, 0, id="less than one"),
        pytest.param(4_294_967_296, 0, id="too long"),
        pytest.param("9" * 5000, 0, id="text of many digits"),
        pytest.param("3e2", 0, id="no integer"),
        pytest.param("", 0, id="empty text"),
        pytest.param(True, 0, id="boolean"),
        pytest.param([300], 0, id="array"),
    ],
)
def test_the_header_says_how_long(scene: Scene, delay: object, expected_ms: int) -> None:
    scene.publish(b"m", delay)
    if expected_ms:
        scene.world.wait((expected_ms - 1) / 1000)
        assert scene.bodies() == []
        scene.world.wait(0.001)

    came = scene.get()
    assert came.body == b"m"
    headers = {} if delay is None else {"x-delay": -expected_ms if expected_ms else delay}
    assert plain_headers(came.properties) == headers


def test_messages_come_by_due_time_and_then_in_the_order_published(scene: Scene) -> None:
    """Rule E-115."""
    for body, delay in ((b"c", 30), (b"a", 10), (b"d", 30), (b"b", 20), (b"now", None)):
        scene.publish(body, delay)

    scene.world.wait(0.03)
    assert scene.bodies() == [b"now", b"a", b"b", b"c", b"d"]


def test_a_delayed_message_goes_by_the_bindings_of_its_due_time() -> None:
    """Rule E-114."""
    scene = Scene("topic")
    scene.client.ask(1, "queue.declare", queue="later")
    scene.bind("#")
    scene.publish(b"m", 100, key="a.b")
    scene.client.ask(1, "queue.unbind", queue="q", exchange="x", routing_key="#")
    scene.bind("*.b", "later")
    scene.world.wait(0.1)
    assert scene.bodies() == []
    assert scene.bodies("later") == [b"m"]


def test_what_reaches_nothing_when_due_is_dropped() -> None:
    """Rule E-114."""
    scene = Scene()
    scene.publish(b"m", 100)
    scene.world.wait(0.1)
    scene.bind()
    scene.world.wait(1)
    assert scene.delayed_count == 0
    assert scene.bodies() == []


def test_a_second_delayed_exchange_does_not_delay_again(scene: Scene) -> None:
    """Rule E-114."""
    scene.client.ask(
        1,
        "exchange.declare",
        exchange="y",
        type="x-delayed-message",
        arguments={"x-delayed-type": "fanout"},
    )
    scene.client.ask(1, "queue.declare", queue="behind")
    scene.client.ask(1, "queue.bind", queue="behind", exchange="y")
    scene.client.ask(1, "exchange.bind", destination="y", source="x", routing_key="k")
    scene.publish(b"m", 100)
    scene.world.wait(0.1)
    assert scene.bodies("behind") == scene.bodies() == [b"m"]


def test_a_message_that_comes_by_a_binding_of_exchanges_is_delayed_too(scene: Scene) -> None:
    scene.client.ask(1, "exchange.bind", destination="x", source="amq.fanout")
    raw = raw_properties(headers={"x-delay": 100})
    scene.client.feed(publish(1, "k", b"m", raw, exchange="amq.fanout"))
    assert scene.bodies() == []
    scene.world.wait(0.1)
    came = scene.get()
    assert (came.body, came.arguments["exchange"]) == (b"m", "amq.fanout")


def test_time_to_live_begins_when_the_message_reaches_a_queue(scene: Scene) -> None:
    """Rule E-117."""
    scene.publish_with(b"m", {"x-delay": 100}, expiration="50")
    scene.world.wait(0.149)
    assert scene.client.ask(1, "queue.declare", queue="q").arguments["message_count"] == 1
    scene.world.wait(0.001)
    assert scene.bodies() == []


def test_keys_in_headers_count_when_the_message_is_due(scene: Scene) -> None:
    """Rule P-40: CC and BCC, the latter not to be seen."""
    scene.client.ask(1, "queue.declare", queue="other")
    scene.bind("hidden", "other")
    scene.publish_with(b"m", {"x-delay": 100, "CC": ["k"], "BCC": ["hidden"]}, key="none")
    scene.world.wait(0.1)
    assert scene.bodies() == [b"m"]
    assert plain_headers(scene.get("other").properties) == {"x-delay": -100, "CC": ["k"]}


def test_a_dead_letter_is_delayed_as_its_header_says(scene: Scene) -> None:
    arguments = {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "k"}
    scene.client.ask(1, "queue.declare", queue="dying", arguments=arguments)
    raw = raw_properties(headers={"x-delay": 100})
    scene.client.feed(publish(1, "dying", b"m", raw))
    tag = scene.client.ask(1, "basic.get", queue="dying").arguments["delivery_tag"]
    scene.client.send(1, "basic.reject", delivery_tag=tag, requeue=False)
    assert scene.bodies() == []
    assert scene.delayed_count == 1
    scene.world.wait(0.1)
    headers = plain_headers(scene.get().properties)
    assert (headers["x-delay"], headers["x-death"][0]["count"]) == (-100, 1)


# -- publishers: rule E-113


def test_a_delayed_message_is_confirmed_at_once(scene: Scene) -> None:
    scene.client.ask(1, "confirm.select")
    scene.publish(b"m", 100)
    assert_sent(scene.client, "1 basic.ack")


def test_a_mandatory_delayed_message_is_returned_and_delivered_nevertheless(scene: Scene) -> None:
    scene.client.ask(1, "confirm.select")
    scene.publish(b"m", 100, mandatory=True)
    returned, confirm = scene.client.heard()
    assert (returned.name, returned.arguments["reply_code"]) == ("basic.return", 312)
    assert plain_headers(returned.properties) == {"x-delay": 100}
    assert confirm.name == "basic.ack"
    scene.world.wait(0.1)
    assert scene.bodies() == [b"m"]


def test_the_alternate_exchange_gets_a_copy_at_once() -> None:
    scene = Scene(arguments={"alternate-exchange": "amq.fanout"})
    scene.bind()
    scene.client.ask(1, "queue.declare", queue="alternate")
    scene.client.ask(1, "queue.bind", queue="alternate", exchange="amq.fanout")
    scene.publish(b"m", 100, mandatory=True)
    assert scene.client.heard() == []
    assert plain_headers(scene.get("alternate").properties) == {"x-delay": 100}
    scene.world.wait(0.1)
    assert scene.bodies() == [b"m"]
    assert scene.bodies("alternate") == []


def test_a_transaction_that_is_rolled_back_delays_nothing(scene: Scene) -> None:
    scene.client.ask(1, "tx.select")
    scene.publish(b"no", 100)
    assert scene.delayed_count == 0
    scene.client.ask(1, "tx.rollback")
    scene.publish(b"yes", 100)
    scene.client.ask(1, "tx.commit")
    assert scene.delayed_count == 1
    scene.world.wait(0.1)
    scene.client.ask(1, "tx.commit")
    assert scene.bodies() == [b"yes"]


def test_a_commit_after_the_exchange_is_gone_delays_nothing(scene: Scene) -> None:
    """Rule E-115."""
    scene.client.ask(1, "tx.select")
    scene.publish(b"m", 100)
    scene.client.ask(1, "exchange.delete", exchange="x")
    assert scene.client.ask(1, "tx.commit").name == "tx.commit-ok"
    assert scene.world.node.next_deadline() is None


# -- delays that work with mandatory


@pytest.fixture
def strict() -> Scene:
    made = Scene(arguments={"x-delay-mandatory": True})
    made.client.ask(1, "confirm.select")
    return made


def test_what_could_be_routed_now_is_not_returned(strict: Scene) -> None:
    strict.bind()
    strict.publish(b"m", 100, mandatory=True)
    assert_sent(strict.client, "1 basic.ack")
    strict.world.wait(0.1)
    assert strict.bodies() == [b"m"]


def test_what_could_not_be_routed_now_is_returned_and_not_kept(strict: Scene) -> None:
    strict.publish(b"m", 100, mandatory=True)
    assert_sent(strict.client, "1 basic.return", "1 basic.ack")
    assert strict.delayed_count == 0
    strict.bind()
    strict.world.wait(0.1)
    assert strict.bodies() == []


def test_what_is_not_mandatory_waits_for_a_binding(strict: Scene) -> None:
    strict.publish(b"m", 100)
    assert_sent(strict.client, "1 basic.ack")
    strict.bind()
    strict.world.wait(0.1)
    assert strict.bodies() == [b"m"]


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_way_by_another_exchange_counts_as_far_as_it_leads(strict: Scene, is_bound: bool) -> None:
    strict.client.ask(1, "exchange.bind", destination="amq.topic", source="x", routing_key="k")
    if is_bound:
        strict.client.ask(1, "queue.bind", queue="q", exchange="amq.topic", routing_key="#")

    strict.publish(b"m", 100, mandatory=True)
    assert_sent(strict.client, *([] if is_bound else ["1 basic.return"]), "1 basic.ack")


def test_the_alternate_exchange_gets_a_message_when_it_is_due() -> None:
    scene = Scene(arguments={"x-delay-mandatory": True, "alternate-exchange": "amq.fanout"})
    scene.client.ask(1, "queue.bind", queue="q", exchange="amq.fanout")
    scene.publish(b"m", 100, mandatory=True)
    assert scene.client.heard() == []
    assert scene.bodies() == []
    scene.world.wait(0.1)
    assert scene.bodies() == [b"m"]


def test_mandatory_in_a_transaction_is_judged_by_the_bindings_of_the_publish() -> None:
    """Rules TX-03, P-23."""
    scene = Scene(arguments={"x-delay-mandatory": True})
    scene.client.ask(1, "tx.select")
    scene.publish(b"returned", 100, mandatory=True)
    scene.bind()
    scene.publish(b"kept", 100, mandatory=True)
    scene.client.send(1, "tx.commit")
    assert_sent(scene.client, "1 basic.return", "1 tx.commit-ok")
    scene.world.wait(0.1)
    assert scene.bodies() == [b"kept"]


# -- the end of an exchange


def test_deleting_the_exchange_drops_what_waits(scene: Scene) -> None:
    """Rule E-115."""
    scene.publish(b"m", 100)
    scene.client.ask(1, "exchange.delete", exchange="x")
    assert scene.world.node.next_deadline() is None
    scene.client.ask(1, "exchange.declare", exchange="x", type="direct")
    scene.bind()
    scene.world.wait(0.2)
    assert scene.bodies() == []


def test_deleting_the_virtual_host_drops_what_waits() -> None:
    world = World()
    client = world.open(1)
    client.ask(
        1,
        "exchange.declare",
        exchange="x",
        type="x-delayed-message",
        arguments={"x-delayed-type": "direct"},
    )
    client.feed(publish(1, "k", b"m", raw_properties(headers={"x-delay": 60_000}), exchange="x"))
    exchange = cast("DelayedExchange", world.vhost.exchanges["x"])
    assert exchange.messages_delayed == 1
    world.node.delete_vhost("/")
    assert exchange.messages_delayed == 0
