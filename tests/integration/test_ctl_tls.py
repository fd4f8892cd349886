"""ctl over HTTPS with an authority of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.embedded import Broker
from tests.helpers.ctl import Ctl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.helpers.certificates import CertificateFiles

WHO = ("authenticate_user", "guest", "guest", "-q")


@pytest.fixture(scope="module")
def url(certificates: CertificateFiles) -> Iterator[str]:
    """Of a broker that asks for certificates as well."""
    ours = certificates
    keys = {"cert": ours.server.cert, "key": ours.server.key, "ca": ours.ca, "verify": "required"}
    listeners = [{"bind": "127.0.0.1", "port": 0, "tls": "default"}]
    config = {"tls": {"default": keys}, "management": {"enabled": True, "listeners": listeners}}
    with Broker.in_thread(config, log_level="error") as broker:
        yield broker.management_url


def test_a_broker_of_a_private_authority_is_asked_with_a_certificate(
    url: str, certificates: CertificateFiles
) -> None:
    ours = certificates
    shown = ("--cert", ours.client.cert, "--key", ours.client.key)
    for trust in (("--ca", ours.ca), ("--cacert", ours.ca), ("--insecure",)):
        outcome = Ctl("--url", url, *trust, *shown)(*WHO)
        assert (outcome.status, outcome.err) == (0, ""), outcome

    environ: Mapping[str, str] = {
        "LEVERET_CTL_URL": url,
        "LEVERET_CTL_CA": ours.ca,
        "LEVERET_CTL_CERT": ours.client.cert,
        "LEVERET_CTL_KEY": ours.client.key,
    }
    assert Ctl(environ=dict(environ))(*WHO).status == 0


def test_who_is_not_trusted_gets_no_password(url: str, certificates: CertificateFiles) -> None:
    for trust in ((), ("--ca", certificates.other_ca)):
        outcome = Ctl("--url", url, *trust)(*WHO)
        assert outcome.status == 69
        assert f"{url} is not trusted: " in outcome.err
        assert "--ca FILE" in outcome.err


def test_a_certificate_that_is_wanted_and_not_shown_is_told(
    url: str, certificates: CertificateFiles
) -> None:
    outcome = Ctl("--url", url, "--ca", certificates.ca)(*WHO)
    assert outcome.status == 69
    assert "certificate" in outcome.err


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        pytest.param(("--url", "http://h", "--ca", "f"), 64, "are for --url https", id="http"),
        pytest.param(("--data-dir", "d", "--insecure"), 64, "are for --url https", id="a-socket"),
        pytest.param(("--url", "https://h", "--key", "f"), 64, "with --cert", id="key-alone"),
        pytest.param(("--url", "https://h", "--ca", "/none"), 69, "cannot use /none", id="no-file"),
    ],
)
def test_options_that_cannot_be_meant(options: tuple[str, ...], status: int, text: str) -> None:
    outcome = Ctl(*options)(*WHO)
    assert outcome.status == status
    assert text in outcome.err
