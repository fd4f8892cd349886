"""Routes that reach many queues: remembered together, within one bound for a virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange
from broker.core.wide_routes import WideRoutes
from broker.limits import FAN_OUT_WIDE
from tests.helpers.core import CoreClient, CoreWorld, ready_bodies

if TYPE_CHECKING:
    from broker.core.publishing import Route

WIDTH = FAN_OUT_WIDE + 1


@pytest.fixture
def client() -> CoreClient:
    """One with a fanout to more queues than are few."""
    client = CoreWorld().client()
    settings = ExchangeSettings("wide", "fanout", True, False, False, {})
    actor = client.node.own_actor(client.vhost)
    declare_exchange(client.vhost, actor, settings)
    for number in range(WIDTH):
        client.declare(f"q{number}")
        bind(client.vhost, actor, BindingRequest("wide", f"q{number}", True, "", {}))

    return client


def published(client: CoreClient, key: str) -> Route:
    """The route of a message that went to all of them."""
    route = client.route(key, "wide")
    client.publish_on(route, key.encode())
    assert len(route.queues) == WIDTH
    return route


def is_kept(route: Route) -> bool:
    return bool(route.queues)


def test_the_oldest_go_when_there_are_too_many_queues_in_all(client: CoreClient) -> None:
    client.vhost.wide_routes = WideRoutes(3 * WIDTH)
    routes = [published(client, str(number)) for number in range(5)]
    assert [is_kept(route) for route in routes] == [False, False, True, True, True]

    client.publish_on(routes[0], b"again")
    assert [is_kept(route) for route in routes] == [True, False, False, True, True]
    for number in range(WIDTH):
        queue = client.world.queue(f"q{number}")
        assert ready_bodies(queue) == [b"0", b"1", b"2", b"3", b"4", b"again"]


def test_one_is_kept_however_wide_it_is(client: CoreClient) -> None:
    client.vhost.wide_routes = WideRoutes(1)
    assert is_kept(published(client, "k"))


def test_no_queue_is_kept_when_one_is_deleted(client: CoreClient) -> None:
    route = published(client, "k")
    client.vhost.remove_queue(client.world.queue("q0"))
    assert not is_kept(route)

    client.publish_on(route, b"again")
    assert ready_bodies(client.world.queue("q1")) == [b"k", b"again"]


def test_none_is_kept_while_memory_is_short(client: CoreClient) -> None:
    route = published(client, "k")
    client.node.memory_is_short()
    assert not is_kept(route)
