"""Password hashes in RabbitMQ's formats (auth layer; rule C-25).

Invariant: nothing here ever puts a password, salt or digest into an error or a ``repr``. Randomness
is passed in.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "HASHING_ALGORITHMS",
    "HASHING_ALGORITHM_DEFAULT",
    "SALT_BYTES",
    "PasswordHash",
    "make_password_hash",
    "parse_password_hash",
    "verify_password",
]

SALT_BYTES: Final = 4
"""Fixed by the interchange format: definitions carry salt and digest as one base64 text."""


def _md5(data: bytes) -> bytes:
    # Old definitions carry it; nothing new is made with it.
    return hashlib.md5(data, usedforsecurity=False).digest()


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _sha512(data: bytes) -> bytes:
    return hashlib.sha512(data).digest()


_DIGESTS: Final[dict[str, tuple[Callable[[bytes], bytes], int]]] = {
    "rabbit_password_hashing_sha256": (_sha256, 32),
    "rabbit_password_hashing_sha512": (_sha512, 64),
    "rabbit_password_hashing_md5": (_md5, 16),
}

HASHING_ALGORITHMS: Final = tuple(_DIGESTS)
HASHING_ALGORITHM_DEFAULT: Final = HASHING_ALGORITHMS[0]


class PasswordHash(NamedTuple):
    """What is kept of a password."""

    algorithm: str
    salt: bytes
    digest: bytes

    def to_base64(self) -> str:
        """Render as ``password_hash`` of RabbitMQ's definitions (rule C-25)."""
        return base64.b64encode(self.salt + self.digest).decode("ascii")

    def __repr__(self) -> str:
        return f"PasswordHash({self.algorithm!r}, ***)"


def make_password_hash(
    password: str, salt: bytes, algorithm: str = HASHING_ALGORITHM_DEFAULT
) -> PasswordHash:
    """Hash a new password.

    Args:
        password: not blank; a blank one could never log in (rule C-25).
        salt: :data:`SALT_BYTES` fresh random bytes.
        algorithm: one of :data:`HASHING_ALGORITHMS`.

    """
    if not password:
        raise ValueError("a blank password can never log in")

    if len(salt) != SALT_BYTES:
        raise ValueError(f"the salt must have {SALT_BYTES} bytes")

    return PasswordHash(algorithm, salt, _digest(algorithm, salt, password))


def parse_password_hash(text: str, algorithm: str = HASHING_ALGORITHM_DEFAULT) -> PasswordHash:
    """Read the base64 text of a definitions or configuration file.

    Raises:
        ValueError: saying what is wrong with the form, without showing the text.

    """
    if algorithm not in _DIGESTS:
        raise ValueError(f"unknown hashing algorithm, one of {', '.join(HASHING_ALGORITHMS)}")

    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not base64") from None

    wanted = SALT_BYTES + _DIGESTS[algorithm][1]
    if len(raw) != wanted:
        raise ValueError(
            f"its {len(raw)} bytes are not the {wanted} ({SALT_BYTES} of salt and "
            f"{wanted - SALT_BYTES} of digest) of {algorithm}{_other_algorithm(len(raw))}"
        )

    return PasswordHash(algorithm, raw[:SALT_BYTES], raw[SALT_BYTES:])


def verify_password(password: str, expected: PasswordHash | None) -> bool:
    """Compare in constant time; no hash and a blank password verify never (rule C-25)."""
    if expected is None or not password:
        return False

    actual = _digest(expected.algorithm, expected.salt, password)
    return hmac.compare_digest(actual, expected.digest)


def _digest(algorithm: str, salt: bytes, password: str) -> bytes:
    return _DIGESTS[algorithm][0](salt + password.encode("utf-8", "surrogateescape"))


def _other_algorithm(size: int) -> str:
    for name, (_, digest_bytes) in _DIGESTS.items():
        if size == SALT_BYTES + digest_bytes:
            return f"; they would be right for {name}"

    return ""
