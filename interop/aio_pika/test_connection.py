"""aio-pika: opening, refusing and closing connections and channels."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aio_pika
import pytest
from aio_pika.exceptions import (
    AMQPConnectionError,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
)
from pamqp.commands import Connection
from pamqp.exceptions import AMQPInternalError
from yarl import URL

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection

    from interop.aio_pika.fixtures import NameMaker

pytestmark = pytest.mark.asyncio


async def test_server_properties_name_the_capabilities_clients_ask_for(
    connection: AbstractConnection,
) -> None:
    transport = connection.transport
    assert transport is not None
    properties = transport.connection.server_properties
    capabilities = properties["capabilities"]
    assert isinstance(capabilities, dict)
    for name in ("publisher_confirms", "basic.nack", "consumer_cancel_notify"):
        assert capabilities[name] is True

    assert properties["product"]
    assert properties["version"]


async def test_wrong_password_is_refused_with_403(url: str) -> None:
    wrong = str(URL(url).with_password("not-the-password"))
    with pytest.raises(AMQPConnectionError, match="ACCESS_REFUSED - Login was refused"):
        await aio_pika.connect(wrong)


async def test_missing_vhost_is_refused_with_530(url: str) -> None:
    wrong = str(URL(url).with_path("/no-such-vhost"))
    with pytest.raises((AMQPConnectionError, AMQPInternalError)) as refusal:
        await aio_pika.connect(wrong)

    # aiormq waits for open-ok and hands the close that came instead along in its error.
    closes = [each for each in refusal.value.args if isinstance(each, Connection.Close)]
    assert [(each.reply_code, each.reply_text) for each in closes] == [
        (530, "NOT_ALLOWED - vhost no-such-vhost not found")
    ]


async def test_many_channels_work_side_by_side(connection: AbstractConnection) -> None:
    channels = await asyncio.gather(*(connection.channel() for _ in range(40)))
    numbers = {(await each.get_underlay_channel()).number for each in channels}
    assert len(numbers) == 40
    queues = await asyncio.gather(*(each.declare_queue(exclusive=True) for each in channels))
    assert len({queue.name for queue in queues}) == 40


async def test_channel_number_is_reused_after_close(connection: AbstractConnection) -> None:
    first = await connection.channel(channel_number=7)
    await first.close()
    again = await connection.channel(channel_number=7)
    assert await again.declare_queue(exclusive=True)


async def test_channel_error_closes_that_channel_only(
    connection: AbstractConnection, make_name: NameMaker
) -> None:
    broken, healthy = await connection.channel(), await connection.channel()
    missing = make_name("missing")
    with pytest.raises(ChannelNotFoundEntity, match=f"no queue '{missing}' in vhost '/'"):
        await broken.declare_queue(missing, passive=True)

    with pytest.raises(ChannelInvalidStateError):
        await broken.declare_queue(exclusive=True)

    assert await healthy.declare_queue(exclusive=True)


async def test_closed_channel_can_be_opened_again(channel: AbstractChannel) -> None:
    with pytest.raises(ChannelNotFoundEntity):
        await channel.declare_queue("interop.no-such-queue", passive=True)

    await channel.reopen()
    assert await channel.declare_queue(exclusive=True)


async def test_second_select_of_another_mode_is_refused(connection: AbstractConnection) -> None:
    confirming = await connection.channel(publisher_confirms=True)
    underlay = await confirming.get_underlay_channel()
    with pytest.raises(ChannelPreconditionFailed, match="cannot switch from confirm to tx mode"):
        await underlay.tx_select()


async def test_update_secret_is_answered(connection: AbstractConnection) -> None:
    await connection.update_secret("another", reason="rotation")
    assert await connection.channel()


async def test_heartbeat_keeps_a_silent_connection_open(url: str) -> None:
    short = str(URL(url).update_query(heartbeat=1))
    async with await aio_pika.connect(short) as connection:
        closed: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        connection.close_callbacks.add(lambda _, error: closed.set_result(error))
        # Three silent intervals are what it takes to be declared dead by either side.
        done, _ = await asyncio.wait([closed], timeout=3.5)
        assert not done
        assert await connection.channel()


async def test_two_hundred_connections_come_and_go(url: str) -> None:
    for _ in range(10):
        connections = await asyncio.gather(*(aio_pika.connect(url) for _ in range(20)))
        await asyncio.gather(*(each.channel() for each in connections))
        await asyncio.gather(*(each.close() for each in connections))
