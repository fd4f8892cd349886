"""Cipher suites by Erlang's names, as RabbitMQ shows them."""

from __future__ import annotations

import ssl

import pytest

from broker.net.tls_facts import suite_facts

# RabbitMQ 3.10: ssl_cipher_format:suite_openssl_str_to_map/1.
SUITES = [
    ("ECDHE-RSA-AES256-GCM-SHA384", "ecdhe_rsa", "aes_256_gcm", "aead"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "ecdhe_ecdsa", "chacha20_poly1305", "aead"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "ecdhe_rsa", "chacha20_poly1305", "aead"),
    ("ECDHE-RSA-AES128-SHA256", "ecdhe_rsa", "aes_128_cbc", "sha256"),
    ("ECDHE-RSA-AES256-SHA384", "ecdhe_rsa", "aes_256_cbc", "sha384"),
    ("ECDHE-ECDSA-AES128-SHA256", "ecdhe_ecdsa", "aes_128_cbc", "sha256"),
    ("DHE-RSA-AES128-GCM-SHA256", "dhe_rsa", "aes_128_gcm", "aead"),
    ("DHE-RSA-AES256-SHA256", "dhe_rsa", "aes_256_cbc", "sha256"),
    ("AES256-SHA", "rsa", "aes_256_cbc", "sha"),
    ("TLS_AES_256_GCM_SHA384", "any", "aes_256_gcm", "aead"),
    ("TLS_AES_128_GCM_SHA256", "any", "aes_128_gcm", "aead"),
    ("TLS_CHACHA20_POLY1305_SHA256", "any", "chacha20_poly1305", "aead"),
    ("TLS_AES_128_CCM_SHA256", "any", "aes_128_ccm", "aead"),
]


@pytest.mark.parametrize(
    ("name", "exchange", "cipher", "digest"), SUITES, ids=[one[0] for one in SUITES]
)
def test_a_suite_has_erlangs_names(name: str, exchange: str, cipher: str, digest: str) -> None:
    assert suite_facts(name) == (exchange, cipher, digest)


def test_every_suite_on_offer_is_understood() -> None:
    for suite in ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers():
        exchange, cipher, digest = suite_facts(suite["name"])
        assert "_" in cipher, suite["name"]
        assert exchange in ("any", "ecdhe_rsa", "ecdhe_ecdsa", "dhe_rsa"), suite["name"]
        assert digest, suite["name"]
