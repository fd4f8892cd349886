"""Virtual hosts of a broker under test: which one it is about, and what they share."""

from __future__ import annotations

import threading

import pytest

from broker.testing import Broker
from tests.helpers.untyped import pika

SHOPS: dict[str, object] = {
    "vhosts": {"shop": {"queues": {"orders": {}}}, "store": {"queues": {"goods": {}}}}
}


@pytest.mark.parametrize(("vhost", "queues"), [("", ["orders"]), ("store", ["goods"])])
def test_a_broker_is_about_a_virtual_host_that_it_has(vhost: str, queues: list[str]) -> None:
    with Broker(SHOPS, vhost=vhost) as broker:
        assert broker.queues == queues
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel().basic_publish("", queues[0], b"hare")
            broker.wait_for(lambda: broker.queue(queues[0]).ready == 1)


def test_one_that_it_does_not_have_is_told() -> None:
    before = threading.active_count()
    with pytest.raises(LookupError, match="no vhost 'mall'; there are: shop, store"):
        Broker(SHOPS, vhost="mall").start()

    assert threading.active_count() == before


def test_definitions_that_cannot_be_loaded_leave_nothing_behind() -> None:
    before = threading.active_count()
    wrong = {"queues": 5}
    with pytest.raises(ValueError, match="queues is not a list"):
        Broker(definitions=wrong).start()

    assert threading.active_count() == before
    with Broker() as broker:
        fresh = broker.fresh_vhost(definitions=wrong)
        with pytest.raises(ValueError, match="queues is not a list"):
            fresh.start()

        assert broker.stage.call(lambda: list(broker.stage.node.vhosts)) == ["/"]


def test_virtual_hosts_have_names_of_their_own_whoever_makes_them() -> None:
    with Broker() as broker, broker.fresh_vhost() as one, one.fresh_vhost() as other:
        assert len({broker.vhost, one.vhost, other.vhost}) == 3


def test_the_end_of_one_virtual_host_leaves_the_faults_of_another() -> None:
    with Broker() as broker, broker.fresh_vhost() as one:
        one.faults.nack_confirms(1)
        one.faults.refuse_logins()
        with broker.fresh_vhost() as other:
            other.faults.nack_confirms(2)

        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika.BlockingConnection(pika.URLParameters(one.url))

        one.faults.accept_logins()
        with pika.BlockingConnection(pika.URLParameters(one.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            with pytest.raises(pika.exceptions.NackError):
                channel.basic_publish("", "nowhere", b"hare")

            channel.basic_publish("", "nowhere", b"hare")
