"""The log: one line an event, whatever a peer put into its names."""

from __future__ import annotations

import io
import json
import re

import pytest

from broker.logs import VALUE_CHARACTERS_MAX, Log, escape


def write(log_format: str, event: str, /, **fields: object) -> str:
    stream = io.StringIO()
    Log("debug", log_format, stream)("info", event, fields)
    return stream.getvalue()


def test_a_text_line_reads_like_one() -> None:
    line = write("text", "connection.opened", user="guest", vhost="/", client="pika 1.3", tls=False)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info    connection\.opened +"
        r'user=guest vhost=/ client="pika 1\.3" tls=no\n',
        line,
    )


def test_a_json_line_is_one_object() -> None:
    line = write("json", "connection.closed", user="guest", duration_s=1.5, reason=None)
    record = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", record.pop("timestamp"))
    assert record == {
        "level": "info",
        "event": "connection.closed",
        "user": "guest",
        "duration_s": 1.5,
        "reason": None,
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("a\nlevel=error", r"a\nlevel=error", id="newline"),
        pytest.param("a\r\tb", r"a\r\tb", id="return-and-tab"),
        pytest.param("\x1b[31mred", r"\x1b[31mred", id="terminal-escape"),
        pytest.param("\x9b31m", r"\x9b31m", id="eight-bit-escape"),
        pytest.param("\x7f\x00", r"\x7f\x00", id="delete-and-nul"),
        pytest.param("a\u2028b\u2029", r"a\u2028b\u2029", id="line-separators"),
        pytest.param("\u202egpj", r"\u202egpj", id="right-to-left-override"),
        pytest.param(b"\xff\xfe".decode("utf-8", "surrogateescape"), r"\xff\xfe", id="raw-bytes"),
        pytest.param("\ud800", r"\ud800", id="half-a-pair"),
        pytest.param("a\\nb", r"a\\nb", id="backslash"),
        pytest.param("Gänsefüßchen 東京", "Gänsefüßchen 東京", id="letters-stay"),
    ],
)
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_name_breaks_out_of_its_line(log_format: str, value: str, expected: str) -> None:
    assert escape(value) == expected
    line = write(log_format, "e", name=value)
    line.encode("utf-8")
    assert line.count("\n") == 1
    if log_format == "json":
        assert json.loads(line)["name"] == expected
    else:
        assert expected in line


def test_a_quoted_value_cannot_end_its_quotes() -> None:
    assert write("text", "e", name='a" user="root').endswith(r'name="a\" user=\"root"' + "\n")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_secrets_are_never_written(log_format: str) -> None:
    line = write(log_format, "e", password="hunter2", secret="hunter2", user="guest")
    assert "hunter2" not in line
    assert "guest" in line


def test_a_field_cannot_pass_for_the_event() -> None:
    record = json.loads(write("json", "true", event="false", level="false"))
    assert record["event"] == "true"
    assert record["level"] == "info"
    assert record["event_"] == "false"


def test_long_values_are_cut() -> None:
    line = write("text", "e", name="x" * 100_000)
    assert len(line) < VALUE_CHARACTERS_MAX + 200
    assert "(100000 characters)" in line


def test_a_traceback_is_indented_below_its_event() -> None:
    lines = write("text", "bug", traceback="Traceback:\n  x\x1b[0m\nError: y\n").splitlines()
    assert lines[1:] == ["  | Traceback:", r"  |   x\x1b[0m", "  | Error: y"]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_only_the_level_and_above_is_written(level: str, expected: list[str]) -> None:
    stream = io.StringIO()
    log = Log(level, "json", stream)
    for each in ("debug", "info", "warning", "error"):
        log(each, "e", {})

    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == expected


def test_a_closed_stream_does_not_hurt() -> None:
    stream = io.StringIO()
    log = Log("info", "text", stream)
    log("info", "e", {})
    stream.close()
    log("info", "e", {})


def test_standard_error_is_the_one_of_the_moment(capsys: pytest.CaptureFixture[str]) -> None:
    Log()("warning", "e", {"a": 1})
    assert capsys.readouterr().err.endswith("a=1\n")
