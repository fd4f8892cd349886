"""Where ctl looks for the broker, and as whom it asks."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from broker.cli.ctl.faults import EXIT_TIMEOUT, EXIT_UNAVAILABLE, CtlError, WrongUsage
from broker.cli.ctl.places import Wishes, find_broker
from broker.cli.ctl.transport import Answer

if TYPE_CHECKING:
    from pathlib import Path

local_only = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets")


def places(wishes: Wishes, environ: dict[str, str] | None = None) -> list[str]:
    requester = find_broker(wishes, environ or {}, timeout_s=1.0)
    return [place.name for place in requester._places]


@local_only
def test_the_usual_places_are_the_data_directory_and_then_localhost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEVERET_DATA_DIR", "/some/where")
    assert places(Wishes()) == ["/some/where/ctl.sock", "http://localhost:15672"]


@pytest.mark.parametrize(
    ("wishes", "environ", "expected"),
    [
        pytest.param(Wishes(url="http://h:1"), {}, "http://h:1", id="url"),
        pytest.param(Wishes(url="h:1"), {}, "http://h:1", id="without-scheme"),
        pytest.param(Wishes(url="https://h"), {}, "https://h:15671", id="https"),
        pytest.param(Wishes(url="http://[::1]:2/api/"), {}, "http://[::1]:2", id="with-api"),
        pytest.param(Wishes(url="http://h:1/mq/api"), {}, "http://h:1/mq", id="behind-a-prefix"),
        pytest.param(Wishes(url="unix:/a/ctl.sock"), {}, "/a/ctl.sock", id="unix"),
        pytest.param(Wishes(data_dir="/a"), {}, "/a/ctl.sock", id="data-dir"),
        pytest.param(Wishes(), {"LEVERET_CTL_URL": "http://e:3"}, "http://e:3", id="environment"),
        pytest.param(
            Wishes(data_dir="/a"), {"LEVERET_CTL_URL": "http://e:3"}, "/a/ctl.sock", id="both"
        ),
    ],
)
def test_one_place_that_is_named(wishes: Wishes, environ: dict[str, str], expected: str) -> None:
    assert places(wishes, environ) == [expected]


@pytest.mark.parametrize(
    ("wishes", "environ", "expected"),
    [
        pytest.param(Wishes(), {}, None, id="nobody"),
        pytest.param(Wishes(user="u", password="p"), {}, ("u", "p"), id="options"),
        pytest.param(Wishes(password="p"), {}, ("guest", "p"), id="password-alone"),
        pytest.param(
            Wishes(user="u"), {"LEVERET_CTL_PASSWORD": "e"}, ("u", "e"), id="one-of-the-environment"
        ),
        pytest.param(
            Wishes(),
            {"LEVERET_CTL_USER": "v", "LEVERET_CTL_PASSWORD": "e"},
            ("v", "e"),
            id="environment",
        ),
        pytest.param(Wishes(url="http://x%40y:p%3A@h"), {}, ("x@y", "p:"), id="in-the-url"),
    ],
)
def test_who_asks(
    wishes: Wishes, environ: dict[str, str], expected: tuple[str, str] | None
) -> None:
    assert find_broker(wishes, environ, timeout_s=1.0)._credentials == expected


def test_a_password_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("secret\nnot this\n")
    for wishes, environ in (
        (Wishes(user="u", password_file=str(path)), {}),
        (Wishes(user="u"), {"LEVERET_CTL_PASSWORD_FILE": str(path)}),
    ):
        assert find_broker(wishes, environ, timeout_s=1.0)._credentials == ("u", "secret")


@pytest.mark.parametrize(
    ("wishes", "text"),
    [
        pytest.param(Wishes(url="http://h", data_dir="/a"), "exclude one another", id="two-places"),
        pytest.param(Wishes(url="ftp://h"), "http://host:port", id="scheme"),
        pytest.param(Wishes(url="http://h:99999"), "http://host:port", id="port"),
        pytest.param(Wishes(user="u"), "where is the password", id="no-password"),
        pytest.param(
            Wishes(user="u", password="p", password_file="f"), "exclude one another", id="two"
        ),
    ],
)
def test_what_contradicts_itself_is_wrong_usage(wishes: Wishes, text: str) -> None:
    with pytest.raises(WrongUsage, match=text):
        find_broker(wishes, {}, timeout_s=1.0)


def test_a_password_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(CtlError, match=r"cannot read the password in .*: no such file"):
        find_broker(Wishes(password_file=str(tmp_path / "x")), {}, timeout_s=1.0)


@local_only
def test_where_no_broker_answers_is_told_with_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVERET_DATA_DIR", str(tmp_path))
    monkeypatch.setattr("broker.cli.ctl.places.USUAL_HOST", "no.such.host.invalid")
    requester = find_broker(Wishes(), os.environ, timeout_s=1.0)
    with pytest.raises(CtlError) as caught:
        requester.ask("GET", "/version")

    assert caught.value.status == EXIT_UNAVAILABLE
    assert caught.value.text.startswith(f"no broker answers at {tmp_path}/ctl.sock (no such file")
    assert "nor at http://no.such.host.invalid:15672" in caught.value.text
    assert "`leveret serve`" in caught.value.text


def test_who_does_not_answer_is_told_after_the_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        requester = find_broker(Wishes(url=url), {}, timeout_s=0.05)
        with pytest.raises(CtlError, match=r"did not answer within 0\.05 s") as caught:
            requester.ask("GET", "/version")

    assert caught.value.status == EXIT_TIMEOUT


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b'{"error":"x","reason":"because"}', "because", id="text"),
        pytest.param(b'{"reason":["invalid_regexp","("]}', "invalid_regexp: (", id="list"),
        pytest.param(
            b'{"reason":"Validation failed\\n\\nno\\n"}', "Validation failed: no", id="two"
        ),
        pytest.param(b"<html>", "<html>", id="no-json"),
        pytest.param(b"", "", id="nothing"),
    ],
)
def test_a_reason_is_one_line(raw: bytes, reason: str) -> None:
    assert Answer(400, raw).reason == reason
