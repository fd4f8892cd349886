"""The numbers of AMQP 0-9-1 against pamqp, which was generated from the specification."""

from __future__ import annotations

from pamqp import base, commands

from broker.wire import constants
from broker.wire.constants import METHOD_NAMES, SERVER_TO_CLIENT

NOT_IN_PAMQP = {constants.ACCESS_REQUEST, constants.ACCESS_REQUEST_OK}


def in_pamqp_spelling(name: str) -> str:
    return name.replace("-", "").lower()


def test_every_method_has_the_number_the_specification_gives_it() -> None:
    known = {
        index: in_pamqp_spelling(method.name)
        for index, method in commands.INDEX_MAPPING.items()
        if issubclass(method, base.Frame)
    }
    ours = {index: in_pamqp_spelling(name) for index, name in METHOD_NAMES.items()}

    assert {index: ours[index] for index in ours.keys() - NOT_IN_PAMQP} == known


def test_every_constant_is_named_after_its_method() -> None:
    named = {
        name: value
        for name, value in vars(constants).items()
        if isinstance(value, int) and value > 0xFFFF
    }

    assert named == {
        name.upper().replace(".", "_").replace("-", "_"): index
        for index, name in METHOD_NAMES.items()
    }


def test_exchange_unbind_ok_is_51() -> None:
    assert constants.method_id_of(constants.EXCHANGE_UNBIND_OK) == 51
    assert constants.class_id_of(constants.EXCHANGE_UNBIND_OK) == constants.CLASS_EXCHANGE


def test_methods_of_servers_are_those_only_a_server_sends() -> None:
    """Rule CH-11."""
    both = {
        "connection.close",
        "connection.close-ok",
        "channel.close",
        "channel.close-ok",
        "channel.flow",
        "channel.flow-ok",
        "basic.cancel",
        "basic.cancel-ok",
        "basic.ack",
        "basic.nack",
    }
    names = {METHOD_NAMES[index] for index in SERVER_TO_CLIENT}

    assert not names & both
    assert {"basic.deliver", "queue.declare-ok", "connection.start", "basic.get-empty"} <= names
    for name in METHOD_NAMES.values():
        if name.endswith("-ok") and name not in both | {
            "connection.start-ok",
            "connection.secure-ok",
            "connection.tune-ok",
        }:
            assert name in names


def test_names_of_methods() -> None:
    assert constants.method_name_of(constants.BASIC_PUBLISH) == "basic.publish"
    assert constants.method_name_of(0x003C0063) == "60.99"


def test_heartbeat_frame_is_a_whole_frame() -> None:
    """Rule F-01."""
    frame = constants.HEARTBEAT_FRAME

    assert frame[0] == constants.FRAME_HEARTBEAT
    assert frame[1:7] == bytes(6)
    assert frame[7] == constants.FRAME_END
    assert len(frame) == constants.FRAME_OVERHEAD_BYTES == constants.FRAME_HEADER_BYTES + 1
