"""Dead-lettering (rules DL-01..DL-16, for classic queues)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.core.dead_letter import Death, is_cycle, record_death
from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange
from broker.wire.tables import Field
from tests.helpers.core import CoreClient, CoreWorld, plain_headers, ready_bodies

if TYPE_CHECKING:
    from broker.core.dead_letter import DeathHistory

START_S = 1_709_208_000


@pytest.fixture
def client() -> CoreClient:
    return CoreWorld().client()


def declare(client: CoreClient, name: str, to: str | None = None, **arguments: object) -> None:
    """A queue whose dead letters go to the default exchange with that key."""
    if to is not None:
        arguments |= {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": to}

    client.declare_with(name, {key.replace("_", "-"): value for key, value in arguments.items()})


def exchange(
    client: CoreClient, name: str, *bindings: tuple[str, str], kind: str = "direct"
) -> None:
    actor = client.node.own_actor(client.vhost)
    declare_exchange(client.vhost, actor, ExchangeSettings(name, kind, True, False, False, {}))
    for key, queue in bindings:
        bind(client.vhost, actor, BindingRequest(name, queue, True, key, {}))


def reject_next(client: CoreClient, name: str) -> None:
    """Get the head of a queue and refuse it for good."""
    client.get(client.world.queue(name))
    client.reject(int(client.deliveries.next_tag) - 1)


def headers_of(client: CoreClient, name: str) -> dict[str, Any]:
    message = client.world.queue(name).ready.head()
    assert message is not None
    return plain_headers(message.properties().raw)


# -- when


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen"])
def test_a_death_has_its_reason(client: CoreClient, reason: str) -> None:
    """Rules DL-02, DL-07, DL-08."""
    declare(client, "grave")
    declare(client, "q", "grave", x_max_length=1, x_message_ttl=50)
    client.publish("q", b"hare")
    if reason == "rejected":
        reject_next(client, "q")
    elif reason == "expired":
        client.world.move(50)
    else:
        client.publish("q", b"fox")

    headers = headers_of(client, "grave")
    [death] = headers.pop("x-death")
    assert death.pop("time") == START_S
    assert death == {
        "count": 1,
        "reason": reason,
        "queue": "q",
        "exchange": "",
        "routing-keys": ["q"],
    }
    assert headers == {
        "x-first-death-reason": reason,
        "x-first-death-queue": "q",
        "x-first-death-exchange": "",
        "x-last-death-reason": reason,
        "x-last-death-queue": "q",
        "x-last-death-exchange": "",
    }
    assert ready_bodies(client.world.queue("grave")) == [b"hare"]


@pytest.mark.parametrize("end", ["ack", "no-ack", "purge", "delete"])
def test_other_ends_are_no_death(client: CoreClient, end: str) -> None:
    """Rules DL-02, Q-54."""
    declare(client, "grave")
    declare(client, "q", "grave")
    queue = client.world.queue("q")
    client.publish("q")
    if end == "purge":
        queue.purge()
    elif end == "delete":
        client.vhost.remove_queue(queue)
    else:
        client.get(queue, no_ack=end == "no-ack")
        if end == "ack":
            client.ack(1)

    assert client.world.queue("grave").ready_count == 0


# -- where


@pytest.mark.parametrize(
    ("argument", "policy", "where"),
    [
        pytest.param("a", None, "a", id="argument"),
        pytest.param(None, "b", "b", id="policy"),
        pytest.param("a", "b", "a", id="argument-wins"),
        pytest.param(None, None, None, id="neither"),
    ],
)
def test_the_exchange_comes_of_argument_or_policy(
    client: CoreClient, argument: str | None, policy: str | None, where: str | None
) -> None:
    """Rule DL-01."""
    for name in "ab":
        client.declare(f"grave-{name}")
        exchange(client, name, ("q", f"grave-{name}"))

    client.declare_with("q", {} if argument is None else {"x-dead-letter-exchange": argument})
    if policy is not None:
        client.world.set_policy({"dead-letter-exchange": policy}, pattern="^q$")

    client.publish("q")
    reject_next(client, "q")
    counts = {name: client.world.queue(f"grave-{name}").ready_count for name in "ab"}
    assert counts == {name: int(name == where) for name in "ab"}


def test_exchange_and_key_are_found_one_by_one(client: CoreClient) -> None:
    """Rule DL-01: an argument's exchange goes with a policy's key."""
    declare(client, "grave")
    client.declare_with("q", {"x-dead-letter-exchange": ""})
    client.world.set_policy(
        {"dead-letter-exchange": "amq.fanout", "dead-letter-routing-key": "grave"}
    )
    client.publish("q")
    reject_next(client, "q")
    assert client.world.queue("grave").ready_count == 1


def test_without_a_key_all_the_old_ones_route(client: CoreClient) -> None:
    """Rule DL-04: main key, CC and BCC; the address shown has the main key."""
    for name in ("main", "cc", "bcc"):
        declare(client, f"grave-{name}")

    exchange(client, "dlx", *((key, f"grave-{key}") for key in ("main", "cc", "bcc")))
    client.declare("q", x_dead_letter_exchange="dlx")
    exchange(client, "x", ("main", "q"))
    client.publish("main", exchange="x", headers={"CC": ["cc"], "BCC": ["bcc"]})
    reject_next(client, "q")
    for name in ("main", "cc", "bcc"):
        message = client.world.queue(f"grave-{name}").ready.head()
        assert message is not None
        assert (message.address.exchange, message.address.routing_key) == ("dlx", "main")
        headers = plain_headers(message.properties().raw)
        assert headers["CC"] == ["cc"]
        assert "BCC" not in headers
        assert headers["x-death"][0]["routing-keys"] == ["main", "cc"]
        assert headers["x-death"][0]["exchange"] == "x"


def test_a_key_of_ones_own_is_the_only_one(client: CoreClient) -> None:
    """Rules DL-04, DL-05: CC stays in the headers and routes no more."""
    declare(client, "grave")
    declare(client, "cc")
    declare(client, "q", "grave")
    client.publish("q", headers={"CC": ["cc"]})
    reject_next(client, "q")
    assert client.world.queue("cc").ready_count == 1
    assert headers_of(client, "grave")["CC"] == ["cc"]
    message = client.world.queue("grave").ready.head()
    assert message is not None
    assert (message.address.exchange, message.address.routing_key) == ("", "grave")


def test_a_letter_may_answer_a_request(client: CoreClient) -> None:
    """A reply queue is a target as any other, though it is no queue of the virtual host."""
    target = client.vhost.add_reply_queue(client)
    client.consume(target, no_ack=True)
    declare(client, "q", target.name, x_message_ttl=0)
    client.publish("q", b"too late")
    assert client.bodies() == [b"too late"]


@pytest.mark.parametrize("target", ["nobody", "nothing"])
def test_a_letter_that_goes_nowhere_is_gone(client: CoreClient, target: str) -> None:
    """Rule DL-03."""
    exchange(client, "nobody")
    client.declare("q", x_dead_letter_exchange=target)
    client.publish("q")
    reject_next(client, "q")
    assert client.world.queue("q").ready_count == 0
    assert client.world.queue("q").unacked_count == 0


def test_the_alternate_exchange_takes_what_is_unroutable(client: CoreClient) -> None:
    """Rule DL-03."""
    declare(client, "grave")
    exchange(client, "spare", ("", "grave"), kind="fanout")
    actor = client.node.own_actor(client.vhost)
    arguments = {"alternate-exchange": Field("S", "spare")}
    declare_exchange(
        client.vhost, actor, ExchangeSettings("dlx", "direct", True, False, False, arguments)
    )
    client.declare("q", x_dead_letter_exchange="dlx")
    client.publish("q")
    reject_next(client, "q")
    assert client.world.queue("grave").ready_count == 1


def test_a_headers_exchange_routes_by_the_letters_headers(client: CoreClient) -> None:
    client.declare("grave")
    actor = client.node.own_actor(client.vhost)
    arguments = {"x-match": Field("S", "all"), "x-first-death-reason": Field("S", "rejected")}
    request = BindingRequest("amq.headers", "grave", True, "", arguments)
    bind(client.vhost, actor, request)
    client.declare("q", x_dead_letter_exchange="amq.headers")
    client.publish("q")
    reject_next(client, "q")
    assert client.world.queue("grave").ready_count == 1


# -- what of the message


def test_everything_but_the_expiration_is_kept(client: CoreClient) -> None:
    """Rules DL-05, DL-07, DL-16: and it does not expire again."""
    declare(client, "grave")
    declare(client, "q", "grave")
    kept: dict[str, Any] = {
        "content_type": "text/plain",
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "message_id": "m",
        "message_type": "t",
        "app_id": "a",
    }
    client.publish("q", b"hare", expiration="50", headers={"mine": 1}, **kept)
    client.world.move(50)
    client.world.move(1_000)
    [message] = client.world.queue("grave").ready.messages()
    properties = message.properties()
    assert properties.expiration is None
    assert properties.is_persistent
    assert message.is_persistent
    plain = properties.to_plain()
    assert plain["message_id"] == "m"
    assert plain["priority"] == 3
    headers = plain_headers(properties.raw)
    assert headers["mine"] == 1
    assert headers["x-death"][0]["original-expiration"] == "50"
    assert message.redelivered is False


def test_the_queues_own_ttl_is_no_original_expiration(client: CoreClient) -> None:
    """Rule DL-07."""
    declare(client, "grave")
    declare(client, "q", "grave", x_message_ttl=0)
    client.publish("q")
    assert "original-expiration" not in headers_of(client, "grave")["x-death"][0]


def test_the_grave_has_a_ttl_of_its_own(client: CoreClient) -> None:
    declare(client, "grave", x_message_ttl=30)
    declare(client, "q", "grave", x_message_ttl=20)
    client.publish("q")
    client.world.move(20)
    assert client.world.queue("grave").ready_count == 1
    client.world.move(29)
    assert client.world.queue("grave").ready_count == 1
    client.world.move(1)
    assert client.world.queue("grave").ready_count == 0


def test_a_waiting_consumer_of_the_grave_gets_it(client: CoreClient) -> None:
    declare(client, "grave")
    declare(client, "q", "grave")
    client.publish("q", b"hare")
    client.consume(client.world.queue("grave"))
    reject_next(client, "q")
    assert client.bodies()[-1] == b"hare"


# -- the history


def test_a_publishers_own_x_death_is_only_data(client: CoreClient) -> None:
    """Rule DL-09: overwritten when the broker writes its own."""
    declare(client, "grave")
    declare(client, "q", "grave")
    forged = [{"queue": "q", "reason": "rejected", "count": 7}]
    client.publish("q", headers={"x-death": forged, "x-first-death-queue": "forged"})
    reject_next(client, "q")
    headers = headers_of(client, "grave")
    assert len(headers["x-death"]) == 1
    assert headers["x-death"][0]["count"] == 1
    assert headers["x-first-death-queue"] == "q"


def test_deaths_are_counted_newest_first(client: CoreClient) -> None:
    """Rules DL-06, DL-08, DL-10."""
    declare(client, "a", "b")
    declare(client, "b", "a")
    client.publish("a")
    for name in ("a", "b", "a"):
        client.world.move(1_000)
        reject_next(client, name)

    headers = headers_of(client, "b")
    told = [(one["queue"], one["count"], one["time"]) for one in headers["x-death"]]
    assert told == [("a", 2, START_S + 1), ("b", 1, START_S + 2)]
    assert headers["x-first-death-queue"] == "a"
    assert headers["x-last-death-queue"] == "a"


def test_a_message_read_and_published_again_begins_anew(client: CoreClient) -> None:
    """Rule DL-10."""
    declare(client, "grave")
    declare(client, "q", "grave")
    client.publish("q")
    reject_next(client, "q")
    [message] = client.world.queue("grave").ready.messages()
    client.publish_on(client.route("q"), b"", message.properties().raw)
    client.get(client.world.queue("grave"), no_ack=True)
    reject_next(client, "q")
    assert headers_of(client, "grave")["x-death"][0]["count"] == 1


# -- cycles


def test_expiring_to_oneself_ends(client: CoreClient) -> None:
    """Rule DL-11."""
    declare(client, "q", "q", x_message_ttl=10)
    client.publish("q")
    client.world.move(1_000)
    assert client.world.queue("q").ready_count == 0


def test_expiring_round_a_circle_ends(client: CoreClient) -> None:
    """Rule DL-11: A, B, and not A again."""
    declare(client, "a", "b", x_message_ttl=10)
    declare(client, "b", "a", x_message_ttl=10)
    client.publish("a")
    client.world.move(10)
    assert client.world.queue("b").ready_count == 1
    client.world.move(1_000)
    assert client.world.queue("a").ready_count == 0


def test_a_rejection_on_the_way_keeps_it_going(client: CoreClient) -> None:
    """Rule DL-11: the retry loop of many programs."""
    declare(client, "work", "wait")
    declare(client, "wait", "work", x_message_ttl=10)
    client.publish("work")
    for count in range(1, 5):
        reject_next(client, "work")
        client.world.move(10)
        deaths = headers_of(client, "work")["x-death"]
        assert [(one["queue"], one["count"]) for one in deaths] == [
            ("wait", count),
            ("work", count),
        ]


def test_rejecting_to_oneself_goes_on(client: CoreClient) -> None:
    declare(client, "q", "q")
    client.publish("q")
    for _ in range(3):
        reject_next(client, "q")

    assert headers_of(client, "q")["x-death"][0]["count"] == 3


def test_a_long_chain_of_full_queues_costs_no_stack(client: CoreClient) -> None:
    """Each one dies at once and goes on to the next, two hundred times."""
    for number in range(200):
        declare(client, f"q{number}", f"q{number + 1}", x_max_length=0)

    client.declare("q200")
    client.publish("q0")
    assert client.world.queue("q200").ready_count == 1
    assert len(headers_of(client, "q200")["x-death"]) == 200


def history(*deaths: tuple[str, str]) -> DeathHistory:
    found: DeathHistory | None = None
    for queue, reason in deaths:
        found = record_death(found, Death(queue, reason, "", [], 0, None))

    assert found is not None
    return found


@pytest.mark.parametrize(
    ("deaths", "target", "expected"),
    [
        pytest.param([("a", "expired")], "a", True, id="itself"),
        pytest.param([("a", "expired")], "b", False, id="another"),
        pytest.param([("a", "expired"), ("b", "maxlen")], "a", True, id="round"),
        pytest.param([("a", "rejected"), ("b", "expired")], "a", False, id="rejected-there"),
        pytest.param([("a", "expired"), ("b", "rejected")], "a", False, id="rejected-between"),
        pytest.param([("b", "rejected"), ("a", "expired")], "a", True, id="rejected-before"),
    ],
)
def test_cycles_are_those_of_the_rule(
    deaths: list[tuple[str, str]], target: str, expected: bool
) -> None:
    """Rule DL-11, the deaths told oldest first."""
    assert is_cycle(history(*deaths), target) is expected


def test_a_repeated_death_moves_to_the_front(client: CoreClient) -> None:
    """Rule DL-06: the others keep their order, and the first stays the first (rule DL-08)."""
    told = history(("a", "expired"), ("b", "expired"), ("c", "maxlen"), ("b", "expired"))
    assert [(one.queue, one.times) for one in told.entries] == [("b", 2), ("c", 1), ("a", 1)]
    assert told.first.queue == "a"


def test_another_reason_is_another_entry() -> None:
    told = history(("a", "expired"), ("a", "rejected"))
    assert [(one.reason, one.times) for one in told.entries] == [("rejected", 1), ("expired", 1)]


def test_recording_leaves_the_history_it_was_given_alone() -> None:
    """Copies in several queues share one."""
    before = history(("a", "expired"))
    record_death(before, Death("a", "expired", "", [], 0, None))
    assert [one.times for one in before.entries] == [1]
