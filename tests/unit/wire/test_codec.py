"""Methods that are not per message: each decoded, each encoded, and every way to be malformed."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from pamqp import base, commands

from broker.errors import AMQPError, CommandInvalid, FrameError
from broker.wire import codec, constants, methods
from broker.wire.codec import decode_method
from broker.wire.tables import Field, TableError, encode_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.wire.methods import Method

ParameterSet = type(pytest.param())

TABLE = {"x": Field("I", 5), "y": Field("S", "z")}
TABLE_BYTES = encode_table(TABLE)


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def payload(index: int, arguments: bytes) -> bytes:
    return struct.pack(">I", index) + arguments


def case(index: int, arguments: bytes, method: Method) -> object:
    return pytest.param(index, arguments, method, id=constants.METHOD_NAMES[index])


# Rules: the packing of each method a client sends.
CLIENT_METHODS = [
    case(
        constants.CONNECTION_START_OK,
        TABLE_BYTES + short(b"PLAIN") + b"\x00\x00\x00\x04\x00u\x00\xff" + short(b"en_US"),
        methods.ConnectionStartOk(TABLE, "PLAIN", b"\x00u\x00\xff", "en_US"),
    ),
    case(constants.CONNECTION_SECURE_OK, b"\x00\x00\x00\x01!", methods.ConnectionSecureOk(b"!")),
    case(
        constants.CONNECTION_TUNE_OK,
        b"\x07\xff\x00\x02\x00\x00\x00\x3c",
        methods.ConnectionTuneOk(2047, 131072, 60),
    ),
    case(
        constants.CONNECTION_OPEN,
        short(b"/") + short(b"") + b"\x01",
        methods.ConnectionOpen("/", "", True),
    ),
    case(
        constants.CONNECTION_CLOSE,
        b"\x00\xc8" + short(b"bye") + b"\x00\x3c\x00\x28",
        methods.ConnectionClose(200, "bye", 60, 40),
    ),
    case(constants.CONNECTION_CLOSE_OK, b"", methods.ConnectionCloseOk()),
    case(
        constants.CONNECTION_UPDATE_SECRET,
        b"\x00\x00\x00\x02pw" + short(b"why"),
        methods.ConnectionUpdateSecret(b"pw", "why"),
    ),
    case(constants.CHANNEL_OPEN, short(b""), methods.ChannelOpen("")),
    case(constants.CHANNEL_FLOW, b"\x01", methods.ChannelFlow(True)),
    case(constants.CHANNEL_FLOW_OK, b"\x00", methods.ChannelFlowOk(False)),
    case(
        constants.CHANNEL_CLOSE,
        b"\x00\xc8" + short(b"") + bytes(4),
        methods.ChannelClose(200, "", 0, 0),
    ),
    case(constants.CHANNEL_CLOSE_OK, b"", methods.ChannelCloseOk()),
    case(
        constants.ACCESS_REQUEST,
        short(b"/data") + b"\x15",
        methods.AccessRequest("/data", True, False, True, False, True),
    ),
    case(
        constants.EXCHANGE_DECLARE,
        b"\x00\x07" + short(b"x") + short(b"topic") + b"\x1a" + TABLE_BYTES,
        methods.ExchangeDeclare("x", "topic", False, True, False, True, True, TABLE),
    ),
    case(
        constants.EXCHANGE_DELETE,
        b"\x00\x00" + short(b"x") + b"\x02",
        methods.ExchangeDelete("x", False, True),
    ),
    case(
        constants.EXCHANGE_BIND,
        b"\x00\x00" + short(b"d") + short(b"s") + short(b"k") + b"\x01" + TABLE_BYTES,
        methods.ExchangeBind("d", "s", "k", True, TABLE),
    ),
    case(
        constants.EXCHANGE_UNBIND,
        b"\x00\x00" + short(b"d") + short(b"s") + short(b"k") + b"\x00" + bytes(4),
        methods.ExchangeUnbind("d", "s", "k", False, {}),
    ),
    case(
        constants.QUEUE_DECLARE,
        b"\x00\x00" + short("é;".encode()) + b"\x16" + TABLE_BYTES,
        methods.QueueDeclare("é;", False, True, True, False, True, TABLE),
    ),
    case(
        constants.QUEUE_BIND,
        b"\x00\x00" + short(b"q") + short(b"x") + short(b"k") + b"\x00" + TABLE_BYTES,
        methods.QueueBind("q", "x", "k", False, TABLE),
    ),
    case(constants.QUEUE_PURGE, b"\x00\x00" + short(b"q") + b"\x01", methods.QueuePurge("q", True)),
    case(
        constants.QUEUE_DELETE,
        b"\x00\x00" + short(b"q") + b"\x05",
        methods.QueueDelete("q", True, False, True),
    ),
    case(
        constants.QUEUE_UNBIND,
        b"\x00\x00" + short(b"q") + short(b"x") + short(b"k") + TABLE_BYTES,
        methods.QueueUnbind("q", "x", "k", TABLE),
    ),
    case(
        constants.BASIC_QOS,
        b"\x00\x01\x00\x00\x00\x0a\x01",
        methods.BasicQos(65536, 10, True),
    ),
    case(
        constants.BASIC_CONSUME,
        b"\x00\x00" + short(b"q") + short(b"t") + b"\x0a" + TABLE_BYTES,
        methods.BasicConsume("q", "t", False, True, False, True, TABLE),
    ),
    case(constants.BASIC_CANCEL, short(b"t") + b"\x01", methods.BasicCancel("t", True)),
    case(constants.BASIC_CANCEL_OK, short(b"t"), methods.BasicCancelOk("t")),
    case(
        constants.BASIC_PUBLISH,
        b"\x00\x00" + short(b"\xff") + short(b"\xc3") + b"\x01",
        methods.BasicPublish("\udcff", "\udcc3", True, False),
    ),
    case(constants.BASIC_GET, b"\x00\x00" + short(b"q") + b"\x01", methods.BasicGet("q", True)),
    case(
        constants.BASIC_ACK,
        b"\xff\xff\xff\xff\xff\xff\xff\xfe\x01",
        methods.BasicAck(2**64 - 2, True),
    ),
    case(constants.BASIC_NACK, bytes(7) + b"\x05\x02", methods.BasicNack(5, False, True)),
    case(constants.BASIC_REJECT, bytes(7) + b"\x05\x01", methods.BasicReject(5, True)),
    case(constants.BASIC_RECOVER_ASYNC, b"\x00", methods.BasicRecoverAsync(False)),
    case(constants.BASIC_RECOVER, b"\x01", methods.BasicRecover(True)),
    case(constants.CONFIRM_SELECT, b"\x01", methods.ConfirmSelect(True)),
    case(constants.TX_SELECT, b"", methods.TxSelect()),
    case(constants.TX_COMMIT, b"", methods.TxCommit()),
    case(constants.TX_ROLLBACK, b"", methods.TxRollback()),
]

CLIENT_INDEXES = constants.METHOD_NAMES.keys() - constants.SERVER_TO_CLIENT


@pytest.mark.parametrize(("index", "arguments", "method"), CLIENT_METHODS)
def test_method_of_a_client_is_decoded(index: int, arguments: bytes, method: Method) -> None:
    decoded = decode_method(index, payload(index, arguments))

    assert decoded == method
    assert type(decoded) is type(method)


@pytest.mark.parametrize(("index", "arguments", "method"), CLIENT_METHODS)
def test_octet_too_many_or_too_few_cannot_be_decoded(
    index: int, arguments: bytes, method: Method
) -> None:
    """Rule F-08: 501 with the arguments in decimal, naming the method."""
    wrong = [arguments + b"\x00"] + [arguments[:cut] for cut in range(len(arguments))]

    for mangled in wrong:
        with pytest.raises(FrameError) as caught:
            decode_method(index, payload(index, mangled))

        shown = ",".join(str(octet) for octet in mangled)
        assert caught.value.explanation == f"cannot decode <<{shown}>>"
        assert caught.value.class_id == index >> 16
        assert caught.value.method_id == index & 0xFFFF


def test_every_method_of_a_client_has_a_case() -> None:
    tried = {params.values[0] for params in CLIENT_METHODS if isinstance(params, ParameterSet)}

    assert tried == CLIENT_INDEXES
    assert len(CLIENT_METHODS) == len(CLIENT_INDEXES)


def test_long_garbage_is_not_printed_whole() -> None:
    """Rule T-03: a reply text has 255 bytes, so there is no use in making a megabyte of it."""
    with pytest.raises(FrameError) as caught:
        decode_method(constants.TX_SELECT, payload(constants.TX_SELECT, bytes(1_000_000)))

    assert len(caught.value.explanation) < 600
    assert len(caught.value.reply_text) == 255
    assert caught.value.reply_text.endswith("...")


@pytest.mark.parametrize(
    ("index", "arguments"),
    [
        pytest.param(constants.QUEUE_PURGE, b"\x00\x00" + short(b"\xff") + b"\x00", id="latin-1"),
        pytest.param(
            constants.QUEUE_PURGE, b"\x00\x00" + short(b"\xed\xa0\x80") + b"\x00", id="surrogate"
        ),
        pytest.param(
            constants.QUEUE_BIND,
            b"\x00\x00" + short(b"q") + short(b"x") + short(b"\xc3") + b"\x00" + bytes(4),
            id="binding-key",
        ),
        pytest.param(constants.CONNECTION_OPEN, short(b"\xff") + b"\x00\x00", id="vhost"),
    ],
)
def test_short_string_that_is_not_utf8_is_refused(index: int, arguments: bytes) -> None:
    """Rule F-09 as 4.3 has it."""
    with pytest.raises(FrameError) as caught:
        decode_method(index, payload(index, arguments))

    assert caught.value.reply_text == "FRAME_ERROR - Malformed UTF-8 in shortstr"
    assert (caught.value.class_id, caught.value.method_id) == (0, 0)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x01kZ", id="unknown-letter"),
        pytest.param(b"\x01kI\x00", id="cut-value"),
        pytest.param(b"\x05k", id="cut-key"),
    ],
)
def test_table_with_bad_entries_is_refused_with_the_reason(body: bytes) -> None:
    """Rule F-08, where RabbitMQ drops the connection."""
    arguments = b"\x00\x00" + short(b"q") + b"\x00" + struct.pack(">I", len(body)) + body

    with pytest.raises(TableError, match="cannot decode field table"):
        decode_method(constants.QUEUE_DECLARE, payload(constants.QUEUE_DECLARE, arguments))


def test_table_that_claims_more_than_there_is_cannot_be_decoded() -> None:
    arguments = b"\x00\x00" + short(b"q") + b"\x00" + b"\xff\xff\xff\xff"

    with pytest.raises(FrameError, match="cannot decode <<0,0,1,113,0,255,255,255,255>>"):
        decode_method(constants.QUEUE_DECLARE, payload(constants.QUEUE_DECLARE, arguments))


@pytest.mark.parametrize("index", sorted(constants.SERVER_TO_CLIENT))
def test_method_of_a_server_is_unimplemented(index: int) -> None:
    """Rule CH-11."""
    with pytest.raises(CommandInvalid) as caught:
        decode_method(index, payload(index, b""))

    assert caught.value.reply_text == "COMMAND_INVALID - unimplemented method"


@pytest.mark.parametrize("index", [0, 0x003C0063, 0x00370001, 0xFFFFFFFF, 0x00280033 - 10])
def test_unknown_method_is_refused_by_its_number(index: int) -> None:
    """Rule F-07."""
    with pytest.raises(CommandInvalid) as caught:
        decode_method(index, payload(index, b""))

    assert caught.value.explanation == f"unimplemented method {index >> 16}.{index & 0xFFFF}"
    assert (caught.value.class_id, caught.value.method_id) == (index >> 16, index & 0xFFFF)


def reference(raw: bytes) -> base.Frame:
    """Return the method as pamqp understands it."""
    index = int.from_bytes(raw[:4], "big")
    known = commands.INDEX_MAPPING[index]
    assert issubclass(known, base.Frame)
    method = known()
    method.unmarshal(raw[4:])
    return method


ANSWERS: list[tuple[bytes, int, dict[str, object]]] = [
    (codec.CONNECTION_OPEN_OK, constants.CONNECTION_OPEN_OK, {"known_hosts": ""}),
    (codec.CONNECTION_CLOSE_OK, constants.CONNECTION_CLOSE_OK, {}),
    (codec.CONNECTION_UNBLOCKED, constants.CONNECTION_UNBLOCKED, {}),
    (codec.CONNECTION_UPDATE_SECRET_OK, constants.CONNECTION_UPDATE_SECRET_OK, {}),
    (codec.CHANNEL_OPEN_OK, constants.CHANNEL_OPEN_OK, {"channel_id": ""}),
    (codec.CHANNEL_CLOSE_OK, constants.CHANNEL_CLOSE_OK, {}),
    (codec.EXCHANGE_DECLARE_OK, constants.EXCHANGE_DECLARE_OK, {}),
    (codec.EXCHANGE_DELETE_OK, constants.EXCHANGE_DELETE_OK, {}),
    (codec.EXCHANGE_BIND_OK, constants.EXCHANGE_BIND_OK, {}),
    (codec.EXCHANGE_UNBIND_OK, constants.EXCHANGE_UNBIND_OK, {}),
    (codec.QUEUE_BIND_OK, constants.QUEUE_BIND_OK, {}),
    (codec.QUEUE_UNBIND_OK, constants.QUEUE_UNBIND_OK, {}),
    (codec.BASIC_QOS_OK, constants.BASIC_QOS_OK, {}),
    (codec.BASIC_GET_EMPTY, constants.BASIC_GET_EMPTY, {"cluster_id": ""}),
    (codec.BASIC_RECOVER_OK, constants.BASIC_RECOVER_OK, {}),
    (codec.CONFIRM_SELECT_OK, constants.CONFIRM_SELECT_OK, {}),
    (codec.TX_SELECT_OK, constants.TX_SELECT_OK, {}),
    (codec.TX_COMMIT_OK, constants.TX_COMMIT_OK, {}),
    (codec.TX_ROLLBACK_OK, constants.TX_ROLLBACK_OK, {}),
    (
        codec.encode_connection_start({"product": Field("S", "RabbitMQ")}, "PLAIN AMQPLAIN"),
        constants.CONNECTION_START,
        {
            "version_major": 0,
            "version_minor": 9,
            "server_properties": {"product": "RabbitMQ"},
            "mechanisms": "PLAIN AMQPLAIN",
            "locales": "en_US",
        },
    ),
    (codec.encode_connection_secure(b"who?"), constants.CONNECTION_SECURE, {"challenge": "who?"}),
    (
        codec.encode_connection_tune(2047, 131072, 60),
        constants.CONNECTION_TUNE,
        {"channel_max": 2047, "frame_max": 131072, "heartbeat": 60},
    ),
    (
        codec.encode_connection_close(530, "NOT_ALLOWED - é", class_id=10, method_id=40),
        constants.CONNECTION_CLOSE,
        {"reply_code": 530, "reply_text": "NOT_ALLOWED - é", "class_id": 10, "method_id": 40},
    ),
    (
        codec.encode_channel_close(404, "NOT_FOUND", class_id=50, method_id=10),
        constants.CHANNEL_CLOSE,
        {"reply_code": 404, "reply_text": "NOT_FOUND", "class_id": 50, "method_id": 10},
    ),
    (
        codec.encode_connection_blocked("low on memory"),
        constants.CONNECTION_BLOCKED,
        {"reason": "low on memory"},
    ),
    (codec.encode_channel_flow_ok(True), constants.CHANNEL_FLOW_OK, {"active": True}),
    (
        codec.encode_queue_declare_ok("é;" + "q" * 200, 5, 2**40),
        constants.QUEUE_DECLARE_OK,
        {"queue": "é;" + "q" * 200, "message_count": 5, "consumer_count": 2**32 - 1},
    ),
    (codec.encode_queue_purge_ok(7), constants.QUEUE_PURGE_OK, {"message_count": 7}),
    (codec.encode_queue_delete_ok(7), constants.QUEUE_DELETE_OK, {"message_count": 7}),
    (codec.encode_basic_consume_ok("t;"), constants.BASIC_CONSUME_OK, {"consumer_tag": "t;"}),
    (
        codec.encode_basic_cancel("t"),
        constants.BASIC_CANCEL,
        {"consumer_tag": "t", "nowait": True},
    ),
    (codec.encode_basic_cancel_ok("t"), constants.BASIC_CANCEL_OK, {"consumer_tag": "t"}),
]


@pytest.mark.parametrize(
    ("raw", "index", "values"),
    [pytest.param(*answer, id=constants.METHOD_NAMES[answer[1]]) for answer in ANSWERS],
)
def test_answer_reads_as_meant(raw: bytes, index: int, values: dict[str, object]) -> None:
    assert int.from_bytes(raw[:4], "big") == index
    assert dict(reference(raw)) == values


def test_every_answer_has_a_case() -> None:
    # Deliveries and returns are per message and so encoded elsewhere; pamqp knows no access class.
    elsewhere = {
        constants.BASIC_DELIVER,
        constants.BASIC_GET_OK,
        constants.BASIC_RETURN,
        constants.ACCESS_REQUEST_OK,
    }

    assert constants.SERVER_TO_CLIENT - elsewhere <= {index for _, index, _ in ANSWERS}


def test_ticket_is_always_1() -> None:
    """Rule CH-10."""
    assert codec.ACCESS_REQUEST_OK == b"\x00\x1e\x00\x0b\x00\x01"


@pytest.mark.parametrize(
    "encode",
    [
        pytest.param(codec.encode_basic_consume_ok, id="consumer-tag"),
        pytest.param(lambda name: codec.encode_queue_declare_ok(name, 0, 0), id="queue-name"),
    ],
)
def test_names_go_out_with_the_bytes_they_came_in(encode: Callable[[str], bytes]) -> None:
    assert b"\x03a\xff\xc3" in encode("a\udcff\udcc3")
    with pytest.raises(ValueError, match="longer than 255"):
        encode("é" * 128)


def test_no_bytes_make_decoding_raise_anything_but_a_broker_error() -> None:
    """A small sweep; the property tests go further."""
    for index in sorted(CLIENT_INDEXES):
        for size in range(40):
            for octet in (b"\x00", b"\x01", b"\x20", b"\xff"):
                try:
                    decode_method(index, payload(index, octet * size))
                except AMQPError:
                    continue
