"""What a browser is believed, and what never comes into a log."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from broker.management.call import is_near
from broker.management.hardening import (
    cors_headers,
    is_from_elsewhere,
    loggable_path,
    own_place,
    preflight_headers,
)

OURS = "http://broker:15672"
FRIEND = "https://console.example.org"


@pytest.mark.parametrize(
    ("method", "headers", "is_foreign"),
    [
        pytest.param("POST", {}, False, id="a-program"),
        pytest.param("POST", {"origin": OURS}, False, id="our-own-page"),
        pytest.param("POST", {"origin": "http://BROKER:15672"}, False, id="in-capitals"),
        pytest.param("POST", {"origin": FRIEND}, False, id="a-site-that-may"),
        pytest.param("POST", {"origin": "http://evil.example"}, True, id="another-site"),
        pytest.param("POST", {"origin": "http://broker:80"}, True, id="another-port"),
        pytest.param("POST", {"origin": "null"}, True, id="a-sandbox"),
        pytest.param("POST", {"origin": ""}, True, id="an-empty-origin"),
        pytest.param("POST", {"origin": "http://[broken"}, True, id="no-url"),
        pytest.param("DELETE", {"origin": "http://evil.example"}, True, id="delete"),
        pytest.param("PUT", {"origin": "http://evil.example"}, True, id="put"),
        pytest.param("GET", {"origin": "http://evil.example"}, False, id="get-changes-nothing"),
        pytest.param("POST", {"sec-fetch-site": "cross-site"}, True, id="says-so-otherwise"),
        pytest.param("POST", {"sec-fetch-site": "same-site"}, True, id="a-neighbour"),
        pytest.param("POST", {"sec-fetch-site": "same-origin"}, False, id="same-origin"),
        pytest.param("POST", {"sec-fetch-site": "none"}, False, id="typed-by-hand"),
    ],
)
def test_a_page_of_another_site_changes_nothing(
    method: str, headers: dict[str, str], is_foreign: bool
) -> None:
    request = make_mocked_request(method, "/", headers=headers)
    assert is_from_elsewhere(request, "broker:15672", (FRIEND,)) is is_foreign


def test_who_names_no_host_has_no_page_of_its_own() -> None:
    request = make_mocked_request("POST", "/", headers={"origin": "http://"})
    assert is_from_elsewhere(request, "", ())


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ((), FRIEND, None),
        ((FRIEND,), FRIEND, FRIEND),
        ((FRIEND,), "http://evil.example", None),
        ((FRIEND,), None, None),
        (("*",), "http://anybody.example", "*"),
    ],
)
def test_other_sites_read_only_where_it_is_configured(
    origins: tuple[str, ...], origin: str | None, allowed: str | None
) -> None:
    sent = {} if origin is None else {"origin": origin}
    headers = cors_headers(sent, origins)
    assert headers.get("access-control-allow-origin") == allowed
    has_credentials = headers.get("access-control-allow-credentials") == "true"
    assert has_credentials is (allowed == FRIEND), "with '*' never with a login of the browser"


def test_a_browser_may_ask_before() -> None:
    asked = {"origin": FRIEND, "access-control-request-method": "PUT"}
    assert preflight_headers(asked, ()) == {}
    assert preflight_headers({"origin": FRIEND}, (FRIEND,)) == {}
    assert preflight_headers(asked, (FRIEND,))["access-control-max-age"] == "1800"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/api/overview", "/api/overview"),
        ("/api/auth/hash_password/hunter2", "/api/auth/hash_password/***"),
        ("/api/auth/hash_password/hunter2?x=1", "/api/auth/hash_password/***?x=1"),
        ("/api/queues?password=hunter2&page=1", "/api/queues?password=***&page=1"),
        ("/api/queues?page=1&TOKEN=hunter2", "/api/queues?page=1&TOKEN=***"),
        ("/api/queues?name=password", "/api/queues?name=password"),
        ("/api/auth/hash%5Fpass%77ord/hunter2", "/api/auth/hash%5Fpass%77ord/***"),
        ("/api/auth/hash_password/hunter2/3", "/api/auth/hash_password/***"),
        ("/api/auth/hash_password//hunter2", "/api/auth/hash_password/***"),
        ("/api/queues?p%61ssword=hunter2", "/api/queues?p%61ssword=***"),
        ("/api/queues?a=b?password=hunter2;x=1", "/api/queues?a=b?password=***;x=1"),
        ("/api/auth/hash_password", "/api/auth/hash_password"),
    ],
)
def test_a_password_in_a_path_is_not_logged(path: str, told: str) -> None:
    assert loggable_path(path) == told


class _FromHere:
    """A socket of this machine."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": ("127.0.0.1", 40_000), "sockname": ("127.0.0.1", 15_672)}.get(
            name, default
        )

    def is_closing(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("headers", "is_of_this_machine"),
    [
        pytest.param({}, True, id="nobody-between"),
        pytest.param({"x-forwarded-for": "127.0.0.1"}, True, id="a-proxy-for-this-machine"),
        pytest.param({"x-forwarded-for": "192.0.2.7"}, False, id="a-proxy-for-another"),
        pytest.param(
            {"x-forwarded-for": "127.0.0.1, 192.0.2.7"}, False, id="who-claims-to-be-near"
        ),
        pytest.param({"x-real-ip": "192.0.2.7"}, False, id="the-other-header"),
        pytest.param({"x-forwarded-for": "::1", "x-real-ip": "192.0.2.7"}, False, id="both"),
        pytest.param({"forwarded": "for=127.0.0.1"}, False, id="the-standard-header"),
        pytest.param({"x-forwarded-for": "localhost"}, False, id="a-name"),
    ],
)
def test_who_comes_through_a_proxy_is_not_taken_for_the_proxy(
    headers: dict[str, str], is_of_this_machine: bool
) -> None:
    """Otherwise guest would come in from everywhere through a proxy on this machine (rule C-36)."""
    request = make_mocked_request("GET", "/", headers=headers, transport=_FromHere())
    assert is_near(request) is is_of_this_machine


@pytest.mark.parametrize(
    ("target", "is_own"),
    [
        ("../#/import-succeeded", True),
        ("/admin?x=1", True),
        ("https://evil.example/", False),
        ("//evil.example", False),
        ("/\\evil.example", False),
        ("\\\\evil.example", False),
        ("javascript:alert(1)", False),
        ("/x\r\nset-cookie: a=b", False),
        ("//[", False),
    ],
)
def test_a_form_sends_nobody_to_another_site(target: str, is_own: bool) -> None:
    assert own_place(target) == (target if is_own else "")
