"""Which check of a method comes first, seen from the wire (rule CH-18).

Each table is a staircase: a row mends what the row above it failed for.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.helpers.core import raw_properties
from tests.helpers.rights import ALL, NONE, BobScene, Rights, refused
from tests.helpers.session import method, publish

ALTERNATE: Final = {"alternate-exchange": "ae"}
FAILED: Final = "PRECONDITION_FAILED -"
LOCKED: Final = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'locked'"


@pytest.fixture
def scene() -> BobScene:
    return BobScene()


class Publish:
    """A publish of bob's with everything wrong that can be; attributes mend it."""

    def __init__(self, scene: BobScene) -> None:
        self.scene = scene
        self.rights: Rights = NONE
        self.exchange = "no"
        self.key = "k"
        self.size = 11
        self.immediate = True
        self.properties: dict[str, object] = {
            "reply_to": "amq.rabbitmq.reply-to",
            "expiration": "hare",
            "headers": {"CC": 1, "BCC": "x"},
            "user_id": "eve",
        }

    def said(self) -> str:
        raw = raw_properties(**self.properties)
        data = publish(
            1, self.key, b"x" * self.size, raw, exchange=self.exchange, immediate=self.immediate
        )
        return self.scene.said(self.rights, data)


def test_the_checks_of_the_method_itself(scene: BobScene) -> None:
    """Rules P-01..P-05, P-11."""
    one = Publish(scene)
    assert one.said() == "NOT_IMPLEMENTED - immediate=true"
    one.immediate = False
    assert one.said() == f"{FAILED} message size 11 is larger than configured max size 10"
    one.size = 1
    assert one.said() == refused("write", "exchange", "no")
    one.rights = ALL
    assert one.said() == "NOT_FOUND - no exchange 'no' in vhost '/'"
    one.exchange = "inner"
    text = "cannot publish to internal exchange 'inner' in vhost '/'"
    assert one.said() == f"ACCESS_REFUSED - {text}"
    one.exchange = "t"
    assert one.said() == f"{FAILED} fast reply consumer does not exist"


def test_the_checks_of_properties(scene: BobScene) -> None:
    """Rules P-06..P-11: what the topic forbids comes between headers and user-id."""
    one = Publish(scene)
    one.immediate, one.size, one.rights, one.exchange = False, 1, ALL, "t"
    scene.allow()
    scene.world.users.set_topic_permissions("bob", vhost="/", exchange="t", write="^a", read="")
    assert one.said() == f"{FAILED} fast reply consumer does not exist"
    del one.properties["reply_to"]
    assert one.said() == f"{FAILED} invalid expiration 'hare': no_integer"
    del one.properties["expiration"]
    term = '{unacceptable_type_in_header,"CC",byte}'
    assert one.said() == f"{FAILED} invalid message: {term}"
    one.properties["headers"] = {"CC": ["a", "b"], "BCC": "x"}
    term = '{unacceptable_type_in_header,"BCC",longstr}'
    assert one.said() == f"{FAILED} invalid message: {term}"
    one.properties["headers"] = {"CC": ["a", "b"]}
    text = "ACCESS_REFUSED - write access to topic '{}' in exchange 't' in vhost '/' refused for"
    assert one.said() == f"{text.format('k')} user 'bob'"
    one.key = "a"
    assert one.said() == f"{text.format('b')} user 'bob'"
    one.properties["headers"] = {"CC": ["a"]}
    text = "user_id property set to 'eve' but authenticated user was 'bob'"
    assert one.said() == f"{FAILED} {text}"
    one.properties["user_id"] = "bob"
    assert one.said() == ""


def step(rights: Rights, name: str, text: str, /, **arguments: object) -> tuple[Rights, bytes, str]:
    return rights, method(1, name, **arguments), text


STAIRCASES: Final = {
    "exchange.declare, CH-18, E-20, E-12, E-21, E-24": [
        step(
            NONE,
            "exchange.declare",
            f"{FAILED} unknown exchange type 'hare'",
            exchange="",
            type="hare",
            arguments={"alternate-exchange": 1},
        ),
        step(
            NONE,
            "exchange.declare",
            "ACCESS_REFUSED - operation not permitted on the default exchange",
            exchange="",
            type="x-delayed-message",
            arguments={"alternate-exchange": 1},
        ),
        step(
            NONE,
            "exchange.declare",
            refused("configure", "exchange", "amq.new"),
            exchange="amq.new",
            type="x-delayed-message",
            arguments={"alternate-exchange": 1},
        ),
        step(
            ("amq|new", "", ""),
            "exchange.declare",
            "ACCESS_REFUSED - exchange name 'amq.new' contains reserved prefix 'amq.*'",
            exchange="amq.new",
            type="x-delayed-message",
            arguments={"alternate-exchange": 1},
        ),
        step(
            ("new", "", ""),
            "exchange.declare",
            f"{FAILED} invalid type 'long' for arg 'alternate-exchange' in exchange 'new' "
            "in vhost '/'",
            exchange="new",
            type="x-delayed-message",
            arguments={"alternate-exchange": 1},
        ),
        step(
            ("new", "", ""),
            "exchange.declare",
            refused("read", "exchange", "new"),
            exchange="new",
            type="x-delayed-message",
            arguments=ALTERNATE,
        ),
        step(
            ALL,
            "exchange.declare",
            f"{FAILED} Invalid argument, 'x-delayed-type' must be an existing exchange type",
            exchange="new",
            type="x-delayed-message",
            arguments=ALTERNATE,
        ),
    ],
    "exchange.delete, E-40, E-42": [
        step(
            NONE,
            "exchange.delete",
            "ACCESS_REFUSED - operation not permitted on the default exchange",
            exchange="",
        ),
        step(
            NONE,
            "exchange.delete",
            "ACCESS_REFUSED - deletion of system exchange 'amq.no' in vhost '/' not allowed",
            exchange="amq.no",
        ),
        step(NONE, "exchange.delete", refused("configure", "exchange", "no"), exchange="no"),
        step(ALL, "exchange.delete", "exchange.delete-ok", exchange="no", if_unused=True),
    ],
    "queue.bind, B-02..B-05, E-13": [
        step(
            NONE,
            "queue.bind",
            refused("write", "queue", "locked"),
            queue="locked",
            exchange="",
            arguments={"x-match": "hare"},
        ),
        step(
            ("", "locked", ""),
            "queue.bind",
            "ACCESS_REFUSED - operation not permitted on the default exchange",
            queue="locked",
            exchange="",
            arguments={"x-match": "hare"},
        ),
        step(
            ("", ".*", ""),
            "queue.bind",
            refused("read", "exchange", "no"),
            queue="gone",
            exchange="no",
            arguments={"x-match": "hare"},
        ),
        step(
            ALL,
            "queue.bind",
            "NOT_FOUND - no exchange 'no' in vhost '/'",
            queue="gone",
            exchange="no",
            arguments={"x-match": "hare"},
        ),
        step(
            ALL,
            "queue.bind",
            "NOT_FOUND - no queue 'gone' in vhost '/'",
            queue="gone",
            exchange="h",
            arguments={"x-match": "hare"},
        ),
        step(
            ALL,
            "queue.bind",
            f'{FAILED} Invalid x-match field value <<"hare">>; expected all, any, all-with-x, '
            "or any-with-x",
            queue="locked",
            exchange="h",
            arguments={"x-match": "hare"},
        ),
        step(ALL, "queue.bind", LOCKED, queue="locked", exchange="h"),
    ],
    "queue.declare, CH-18, Q-02, Q-03, Q-31, Q-26": [
        step(
            NONE,
            "queue.declare",
            f"{FAILED} Cannot declare a server-named queue for type rabbit_quorum_queue",
            queue="",
            arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": 1},
        ),
        step(
            NONE,
            "queue.declare",
            "ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'",
            queue="amq.q",
            arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": 1},
        ),
        step(
            NONE,
            "queue.declare",
            refused("configure", "queue", "locked"),
            queue="locked",
            durable=True,
            arguments={"x-dead-letter-exchange": 1},
        ),
        step(
            ALL,
            "queue.declare",
            LOCKED,
            queue="locked",
            durable=True,
            arguments={"x-dead-letter-exchange": 1},
        ),
        step(
            ALL,
            "queue.declare",
            "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q'",
            queue="q",
            exclusive=True,
            durable=True,
            auto_delete=True,
        ),
        step(
            ALL,
            "queue.declare",
            f"{FAILED} inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but "
            "current is 'false'",
            queue="q",
            durable=True,
            auto_delete=True,
            arguments={"x-expires": 0},
        ),
        step(
            ALL,
            "queue.declare",
            f"{FAILED} inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' "
            "but current is 'false'",
            queue="q",
            auto_delete=True,
            arguments={"x-expires": 0},
        ),
        step(
            ("new", "", ""),
            "queue.declare",
            f"{FAILED} invalid type 'long' for arg 'x-dead-letter-exchange' in queue 'new' in "
            "vhost '/'",
            queue="new",
            auto_delete=True,
            arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": 1, "x-expires": 0},
        ),
        step(
            ("new", "", ""),
            "queue.declare",
            refused("read", "queue", "new"),
            queue="new",
            auto_delete=True,
            arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": "d", "x-expires": 0},
        ),
        step(
            ALL,
            "queue.declare",
            f"{FAILED} invalid arg 'x-expires' for queue 'new' in vhost '/': {{value_zero,0}}",
            queue="new",
            auto_delete=True,
            arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": "d", "x-expires": 0},
        ),
        step(
            ALL,
            "queue.declare",
            f"{FAILED} invalid property 'auto-delete' for queue 'new' in vhost '/'",
            queue="new",
            auto_delete=True,
            arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": "d"},
        ),
    ],
    "queue.declare passive, Q-34, Q-41": [
        step(
            NONE, "queue.declare", refused("configure", "queue", "gone"), queue="gone", passive=True
        ),
        step(
            ALL,
            "queue.declare",
            "NOT_FOUND - no queue 'gone' in vhost '/'",
            queue="gone",
            passive=True,
            exclusive=True,
        ),
        step(ALL, "queue.declare", LOCKED, queue="locked", passive=True),
    ],
    "queue.delete, Q-30, Q-50, Q-51": [
        step(NONE, "queue.delete", refused("configure", "queue", "gone"), queue="gone"),
        step(ALL, "queue.delete", "queue.delete-ok", queue="gone", if_empty=True, if_unused=True),
        step(ALL, "queue.delete", LOCKED, queue="locked", if_empty=True, if_unused=True),
        step(
            ALL,
            "queue.delete",
            f"{FAILED} queue 'busy' in vhost '/' in use",
            queue="busy",
            if_unused=True,
            if_empty=True,
        ),
    ],
    "queue.purge, Q-30, Q-55": [
        step(NONE, "queue.purge", refused("read", "queue", "gone"), queue="gone"),
        step(ALL, "queue.purge", "NOT_FOUND - no queue 'gone' in vhost '/'", queue="gone"),
        step(ALL, "queue.purge", LOCKED, queue="locked"),
    ],
    "basic.get, G-01": [
        step(NONE, "basic.get", refused("read", "queue", "gone"), queue="gone"),
        step(ALL, "basic.get", "NOT_FOUND - no queue 'gone' in vhost '/'", queue="gone"),
        step(ALL, "basic.get", LOCKED, queue="locked"),
    ],
    "basic.consume, CO-01, CO-07, CO-08": [
        step(
            NONE,
            "basic.consume",
            refused("read", "queue", "gone"),
            queue="gone",
            exclusive=True,
            arguments={"x-priority": "high"},
        ),
        step(
            ALL,
            "basic.consume",
            "NOT_FOUND - no queue 'gone' in vhost '/'",
            queue="gone",
            exclusive=True,
            arguments={"x-priority": "high"},
        ),
        step(
            ALL,
            "basic.consume",
            LOCKED,
            queue="locked",
            exclusive=True,
            arguments={"x-priority": "high"},
        ),
        step(
            ALL,
            "basic.consume",
            f"{FAILED} invalid arg 'x-priority' for queue 'busy' in vhost '/': "
            '"expected integer, got longstr"',
            queue="busy",
            exclusive=True,
            arguments={"x-priority": "high"},
        ),
        step(
            ALL,
            "basic.consume",
            "ACCESS_REFUSED - queue 'busy' in vhost '/' in exclusive use",
            queue="busy",
            exclusive=True,
        ),
    ],
}
"""By method and rules: rights, what is sent, and what is answered."""


@pytest.mark.parametrize("name", STAIRCASES)
def test_the_first_check_that_fails_decides(scene: BobScene, name: str) -> None:
    """Rule CH-18: what is told begins so."""
    for rights, data, text in STAIRCASES[name]:
        answer = scene.said(rights, data)
        assert answer.startswith(text), text
