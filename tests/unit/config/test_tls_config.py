"""What `leveret config check` says of TLS and of proxies, with line and column."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from broker.config.loader import load_config
from broker.config.problems import ConfigProblems
from tests.helpers.certificates import PASSWORD, CertificateFiles

if TYPE_CHECKING:
    from pathlib import Path

    from broker.config.schema import Config

JUNK = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
HEAD = "version: 1\nlisteners: {amqps: [{}]}\n"


def load(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> Config:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    return load_config(str(path), environ=environ or {})


def problems_of(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigProblems) as caught:
        load(tmp_path, text)

    return [str(one).removeprefix(f"{tmp_path}{os.sep}") for one in caught.value.problems]


def profile(**keys: str) -> str:
    lines = "".join(f"    {key}: {value}\n" for key, value in keys.items())
    return f"{HEAD}tls:\n  default:\n{lines}"


def test_a_whole_profile_is_taken(tmp_path: Path, certificates: CertificateFiles) -> None:
    ours = certificates
    text = profile(
        cert=ours.server.cert,
        key=ours.server.key,
        ca=ours.ca,
        verify="required",
        min_version="1.3",
        sni=f"{{'*.example.org': {{cert: {ours.wildcard.cert}, key: {ours.wildcard.key}}}}}",
    )
    config = load(tmp_path, text)
    assert config.warnings == ()
    [one] = config.tls
    assert (one.name, one.verify, one.min_version) == ("default", "required", "1.3")
    assert [name for name, _ in one.sni] == ["*.example.org"]
    assert config.listeners.amqps[0].tls == "default"


def test_paths_start_at_the_file(tmp_path: Path, certificates: CertificateFiles) -> None:
    for name, path in zip(("a.crt", "a.key"), certificates.server, strict=True):
        shutil.copyfile(path, tmp_path / name)

    os.chmod(tmp_path / "a.key", 0o600)
    config = load(tmp_path, profile(cert="a.crt", key="a.key"))
    assert config.tls[0].credentials.cert == str(tmp_path / "a.crt")
    assert config.warnings == ()


@pytest.mark.parametrize("source", ["variable", "file"])
def test_a_key_may_have_a_password(
    tmp_path: Path, certificates: CertificateFiles, source: str
) -> None:
    files = certificates.encrypt("encrypted", certificates.server)
    (tmp_path / "secret").write_text(f"{PASSWORD}\n")
    how = {"key_password": "${KEY_PASSWORD}"}
    if source == "file":
        how = {"key_password_file": "secret"}

    text = profile(cert=files.cert, key=files.key, **how)
    config = load(tmp_path, text, {"KEY_PASSWORD": PASSWORD})
    secret = config.tls[0].credentials.key_password
    assert secret is not None
    assert secret.reveal() == PASSWORD
    assert PASSWORD not in repr(config)


# Each value stands in a line of its own, with {name} for a file; then what is said of it.
WRONG = [
    pytest.param(
        {"cert": "none.crt", "key": "{server.key}"},
        r"f.yaml:5:11: tls.default.cert: '.*none.crt' cannot be read: no such file or directory",
        id="no-file",
    ),
    pytest.param(
        {"cert": ".", "key": "{server.key}"},
        r"f.yaml:5:11: tls.default.cert: '.*' cannot be read: is a directory",
        id="directory",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "{second.key}"},
        r"f.yaml:6:10: tls.default.key: '.*second.key' is not the key of the certificate in"
        r" '.*server.crt'",
        id="key-does-not-fit",
    ),
    pytest.param(
        {"cert": "{server.key}", "key": "{server.key}"},
        r"f.yaml:5:11: tls.default.cert: '.*' holds no certificate in PEM but a private key - were",
        id="key-as-cert",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "{server.cert}"},
        r"f.yaml:6:10: tls.default.key: '.*' holds no private key in PEM but a certificate - were",
        id="cert-as-key",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "{encrypted.key}"},
        r"f.yaml:6:10: tls.default.key: '.*' is encrypted - add key_password or key_password_file",
        id="encrypted",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "{encrypted.key}", "key_password": "wrong horse"},
        r"f.yaml:7:19: tls.default.key_password: the password does not open '.*encrypted.key'",
        id="wrong-password",
    ),
    pytest.param(
        {
            "cert": "{server.cert}",
            "key": "{server.key}",
            "key_password": "a",
            "key_password_file": "b",
        },
        r"f.yaml:8:24: tls.default.key_password_file: key_password is there as well",
        id="two-passwords",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "{server.key}", "key_password_file": "nowhere"},
        r"f.yaml:7:24: tls.default.key_password_file: '.*nowhere' cannot be read",
        id="no-password-file",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "junk.key"},
        r"f.yaml:6:10: tls.default.key: '.*junk.key' is damaged",
        id="damaged-key",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "{server.key}", "verify": "required"},
        r"f.yaml:7:13: tls.default.verify: there is no ca to verify .* add ca: FILE",
        id="no-ca",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "{server.key}", "verify": "required", "ca": "none.crt"},
        r"f.yaml:8:9: tls.default.ca: '.*none.crt' cannot be read",
        id="ca-not-there",
    ),
    pytest.param(
        {
            "cert": "{server.cert}",
            "key": "{server.key}",
            "verify": "required",
            "ca": "{ca}",
            "crl": "{ca}.none",
        },
        r"f.yaml:9:10: tls.default.crl: '.*' cannot be used: no such file",
        id="crl-not-there",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "{server.key}", "min_version": "1.1"},
        r"f.yaml:7:18: tls.default.min_version: expected 1.2 or 1.3, got .*1.1.* has been broken",
        id="old-version",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "{server.key}", "ciphers": "ROT13"},
        r"f.yaml:7:14: tls.default.ciphers: OpenSSL knows none of them",
        id="ciphers",
    ),
    pytest.param(
        {"cert": "{server.cert}", "key": "{server.key}", "sni": "{{Hare: {{cert: a, key: b}}}}"},
        r"f.yaml:7:11: tls.default.sni.Hare: write it in lower case",
        id="server-name",
    ),
    pytest.param(
        {"cert": "{server.cert}", "certfile": "x", "key": "{server.key}"},
        r"f.yaml:6:5: tls.default.certfile: unknown key - write cert",
        id="rabbitmqs-name",
    ),
    pytest.param(
        {"key": "{server.key}"},
        r"f.yaml:5:5: tls.default.cert: the key is missing - expected the path of a file",
        id="no-cert",
    ),
]


@pytest.mark.parametrize(("keys", "expected"), WRONG)
def test_what_is_wrong_has_its_line(
    tmp_path: Path, certificates: CertificateFiles, keys: dict[str, str], expected: str
) -> None:
    (tmp_path / "junk.key").write_text(
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    )
    names = {
        "server": certificates.server,
        "second": certificates.second,
        "encrypted": certificates.encrypt("encrypted", certificates.server),
        "ca": certificates.ca,
    }
    for one in (certificates.server, certificates.second):
        os.chmod(one.key, 0o600)

    text = profile(**{key: value.format(**names) for key, value in keys.items()})
    [problem] = problems_of(tmp_path, text)
    assert re.match(expected, problem), problem


WARNED = [
    pytest.param("expired", {}, r"tls.default.cert: '.*' expired on 20\d\d-", id="expired"),
    pytest.param(
        "server", {"ca": "{ca}"}, r"tls.default.ca: it is not used, since", id="ca-unused"
    ),
    pytest.param(
        "server",
        {"sni": "{{fox.example.com: {{cert: {w.cert}, key: {w.key}}}}}"},
        r"tls.default.sni.fox.example.com.cert: '.*' is no certificate for 'fox.example.com'",
        id="other-name",
    ),
]


@pytest.mark.parametrize(("which", "keys", "expected"), WARNED)
def test_what_is_doubtful_is_a_warning(
    tmp_path: Path, certificates: CertificateFiles, which: str, keys: dict[str, str], expected: str
) -> None:
    files = getattr(certificates, which)
    values = {
        key: value.format(w=certificates.wildcard, ca=certificates.ca)
        for key, value in keys.items()
    }
    config = load(tmp_path, profile(cert=files.cert, key=files.key, **values))
    assert re.search(expected, str(config.warnings[0])), config.warnings


def test_a_key_that_everybody_can_read_is_told_of(
    tmp_path: Path, certificates: CertificateFiles
) -> None:
    key = tmp_path / "open.key"
    shutil.copyfile(certificates.server.key, key)
    key.chmod(0o644)
    config = load(tmp_path, profile(cert=certificates.server.cert, key=str(key)))
    assert "every user of this machine can read" in str(config.warnings[0])


NAMES = [
    pytest.param(
        "listeners: {amqps: [{}]}\n",
        "f.yaml:2:21: listeners.amqps.0.tls: there is nothing under tls by the name 'default' - add"
        " tls: {default: {cert: FILE, key: FILE}}",
        id="no-tls",
    ),
    pytest.param(
        "management: {listeners: [{tls: deflaut}]}\ntls: {default: {cert: CERT, key: KEY}}\n",
        "f.yaml:2:32: management.listeners.0.tls: there is nothing under tls by the name 'deflaut'"
        " - did you mean 'default'?",
        id="near",
    ),
    pytest.param(
        "listeners: {amqp: [], amqps: []}\n",
        "f.yaml:2:13: listeners.amqp: nobody could connect: there is no listener here nor in amqps",
        id="no-listener",
    ),
    pytest.param(
        "listeners: {amqp: [{proxy_protocol: {trusted: [10.0.0.1/8]}}]}\n",
        "f.yaml:2:48: listeners.amqp.0.proxy_protocol.trusted.0: expected a network as 10.0.0.0/8,"
        " or an address, got the text '10.0.0.1/8' - the network of that address is 10.0.0.0/8",
        id="host-bits",
    ),
    pytest.param(
        "listeners: {amqp: [{proxy_protocol: {trusted: []}}]}\n",
        "f.yaml:2:47: listeners.amqp.0.proxy_protocol.trusted: expected at least 1 entry, got none",
        id="nobody-trusted",
    ),
    pytest.param(
        "listeners: {amqp: [{tls: default}]}\n",
        "f.yaml:2:21: listeners.amqp.0.tls: unknown key - listeners with TLS stand under amqps",
        id="tls-on-amqp",
    ),
    pytest.param(
        "listeners: {amqp: [{port: 7}], amqps: [{port: 7}]}\n"
        "tls: {default: {cert: CERT, key: KEY}}\n",
        "f.yaml:2:47: listeners.amqps.0.port: localhost port 7 is taken by listeners.amqp.0"
        " (localhost) already - choose another port",
        id="port-twice",
    ),
]


@pytest.mark.parametrize(("text", "expected"), NAMES)
def test_a_listener_says_what_is_there(
    tmp_path: Path, certificates: CertificateFiles, text: str, expected: str
) -> None:
    files = certificates.server
    text = text.replace("CERT", files.cert).replace("KEY", files.key)
    assert problems_of(tmp_path, f"version: 1\n{text}") == [expected]


LIKELY = [
    pytest.param(
        "auth: {mechanisms: [EXTERNAL]}\n",
        "auth.mechanisms: nobody can use EXTERNAL",
        id="external-without-verify",
    ),
    pytest.param(
        "listeners: {amqp: [{proxy_protocol: {trusted: ['0.0.0.0/0']}}]}\n",
        "trusted.0: whoever connects may say that he is somebody else",
        id="everybody-trusted",
    ),
    pytest.param(
        "tls: {spare: {cert: CERT, key: KEY}}\n", "tls.spare: no listener uses it", id="unused"
    ),
]


@pytest.mark.parametrize(("text", "expected"), LIKELY)
def test_what_is_probably_not_meant_is_a_warning(
    tmp_path: Path, certificates: CertificateFiles, text: str, expected: str
) -> None:
    files = certificates.server
    text = text.replace("CERT", files.cert).replace("KEY", files.key)
    config = load(tmp_path, f"version: 1\n{text}")
    assert expected in str(config.warnings[0])


def test_a_user_without_a_password_may_have_a_certificate(
    tmp_path: Path, certificates: CertificateFiles
) -> None:
    text = profile(
        cert=certificates.server.cert,
        key=certificates.server.key,
        ca=certificates.ca,
        verify="required",
    )
    people = "users: [{name: shop}]\nauth: {mechanisms: [EXTERNAL]}\n"
    assert load(tmp_path, text + people).warnings == ()


def test_tls_only_is_a_configuration(tmp_path: Path, certificates: CertificateFiles) -> None:
    files = certificates.server
    text = "listeners: {amqp: [], amqps: [{port: 0}]}\n"
    config = load(
        tmp_path,
        f"version: 1\n{text}tls: {{default: {{cert: {files.cert}, key: {files.key}}}}}\n",
    )
    assert config.listeners.amqp == ()
    assert [one.tls for one in config.listeners.amqps] == ["default"]
