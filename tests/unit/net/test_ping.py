"""Ping against a thread that answers one connection with what the test wants."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from broker.errors import StartError
from broker.net.ping import PROTOCOL_HEADER, ping
from broker.wire.tables import encode_table, table_from_plain

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def answering(answer: bytes | None) -> Iterator[int]:
    """Listen once, take the protocol header, answer (or say nothing) and close."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(8) == PROTOCOL_HEADER
                if answer is None:
                    done.wait(5)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        done.set()
        thread.join()


def start_frame(properties: bytes, frame_type: int = 1) -> bytes:
    payload = (
        b"\x00\x0a\x00\x0a\x00\x09" + properties + b"\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US"
    )
    return bytes([frame_type, 0, 0]) + len(payload).to_bytes(4, "big") + payload + b"\xce"


def test_a_broker_that_answers_is_named() -> None:
    """Rule C-01."""
    table = encode_table(table_from_plain({"version": "1.2", "product": "Hare", "x": {"y": True}}))
    with answering(start_frame(table)) as port:
        pong = ping("127.0.0.1", port, 5.0)

    assert pong[:2] == ("Hare", "1.2")
    assert 0 < pong.elapsed_s < 5


def test_a_broker_without_a_name_is_unknown() -> None:
    with answering(start_frame(b"\0\0\0\0")) as port:
        assert ping("127.0.0.1", port, 5.0)[:2] == ("unknown", "unknown")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(b"", "closed the connection without", id="closes"),
        pytest.param(b"AMQP\0\0\t\1", "does not speak AMQP 0-9-1", id="refuses-and-closes"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak AMQP 0-9-1", id="http"),
        pytest.param(start_frame(b"\0\0\0\0", 3), "does not speak AMQP 0-9-1", id="no-method"),
        pytest.param(start_frame(b"\0\0\0\5\1x")[:-1] + b"\0", "does not speak", id="no-frame-end"),
        pytest.param(start_frame(b"\0\0\0\3\1x?"), "malformed connection.start", id="bad-table"),
        pytest.param(start_frame(b"\0\0\xff\xff"), "malformed connection.start", id="cut-table"),
        pytest.param(start_frame(b"\0\0\0\0")[:20], "closed the connection", id="cut-frame"),
    ],
)
def test_anything_else_is_one_clear_line(answer: bytes, text: str) -> None:
    with answering(answer) as port, pytest.raises(StartError) as caught:
        ping("127.0.0.1", port, 5.0)

    assert text in str(caught.value)
    assert str(port) in str(caught.value)


def test_silence_ends_after_the_timeout() -> None:
    with answering(None) as port, pytest.raises(StartError, match=r"no answer from .* 0\.05 s"):
        ping("127.0.0.1", port, 0.05)


def test_a_closed_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    with pytest.raises(StartError, match=f"cannot connect to 127.0.0.1:{port}: Connection refused"):
        ping("127.0.0.1", port, 5.0)
