"""Files that import_messages is given by mistake: what they are is told, and what takes them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from typing import Final

import pytest

from broker.cli.ctl.faults import EXIT_DATA, CtlError
from broker.cli.ctl.message_lines import fields_in, is_of_messages, payload_in
from tests.helpers.ctl import Ctl

NOWHERE: Final = Ctl("--url", "http://127.0.0.1:1")
GOOD: Final = b'{"message":{"queue":"q","body":"x"}}\n'
NOTHING_IN: Final = " - nothing is in\n"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param(gzip.compress(GOOD), "the file is compressed: `gzip -d` it first", id="gzip"),
        pytest.param(bz2.compress(GOOD), "the file is compressed: `bzip2 -d` it", id="bzip2"),
        pytest.param(lzma.compress(GOOD), "the file is compressed: `xz -d` it first", id="xz"),
        pytest.param(GOOD.decode().encode("utf-16"), "the file is UTF-16", id="utf-16"),
        pytest.param(b'{\n  "queues": []\n}\n', "JSON goes on over more lines", id="indented"),
        pytest.param(b'[\n  {"payload": "x"}\n]\n', "JSON goes on over more", id="indented-list"),
        pytest.param(b'{"users":[],"queues":[]}', "import_definitions takes", id="definitions"),
        pytest.param(b'{"bindings": []}', "import_definitions takes them", id="one-vhost"),
        pytest.param(b'{"vhost":{"name":"/"}}', "it is about a vhost, as `leveret", id="store"),
        pytest.param(b'{"queue":{"name":"q"}}', "grep '^{\"message\"'", id="store-queue"),
        pytest.param(b'[{"payload":"x"}]', "each message is a line of its own", id="get"),
        pytest.param(b'{"payload":"x"}', "the message itself has to stand within", id="bare"),
        pytest.param(b'{"message":{"queue":"q"}}', "it has no body_base64, and no body", id="none"),
        pytest.param(b'{"message":{"queue":"q","body":5}}', "body is no text", id="number"),
        pytest.param(b'{"message":{"queue":"q","body_base64":null}}', "is no text", id="null"),
        pytest.param(b"[" * 100_000, "it is no JSON", id="deep"),
        pytest.param(b"queue,body\nq,x\n", "it is no JSON", id="csv"),
        pytest.param(b"7", 'it is no {"message": {...}}', id="number-alone"),
    ],
)
def test_a_file_of_another_kind_is_told_from_the_first_line(file: bytes, text: str) -> None:
    outcome = NOWHERE("import_messages", "--queue", "q", given=file)
    assert (outcome.status, outcome.out) == (EXIT_DATA, "")
    line = outcome.err.splitlines(keepends=True)[-1]
    assert line.startswith("Error: line 1: ")
    assert text in line
    assert line.endswith(NOTHING_IN)


@pytest.mark.parametrize("body", [{"body": "é"}, {"body_base64": "w6k="}])
def test_a_line_of_a_message_is_read(body: dict[str, object]) -> None:
    line = json.dumps({"message": {"queue": "q", **body}}).encode()
    fields = fields_in(3, line)
    assert payload_in(3, fields)["payload"] == next(iter(body.values()))
    assert is_of_messages(b"\n" + line + b"\n" + line)
    assert not is_of_messages(b'{"queues": []}')


def test_further_on_the_way_to_go_on_is_told() -> None:
    with pytest.raises(CtlError, match=r"line 3: it is no JSON - .* `tail -n \+3`"):
        fields_in(3, b"{\n")
