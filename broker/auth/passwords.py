"""Password hashes: RabbitMQ's, which are quick, and argon2id, which is slow (auth layer; C-25).

A quick hash is a salted digest: whoever gets at it tries a billion passwords a second. Argon2id
takes some thirty milliseconds and 19 MiB for each. RabbitMQ does not know it, so the quick ones
stay for whoever takes definitions there.

Invariant: nothing here ever puts a password, salt or digest into an error or a ``repr``. Randomness
is passed in.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ARGON2ID",
    "HASHING_ALGORITHMS",
    "HASHING_ALGORITHM_DEFAULT",
    "OWN_HASH",
    "PASSWORD_HASHING",
    "SALT_BYTES",
    "PasswordHash",
    "dummy_hash",
    "make_password_hash",
    "new_password_hash",
    "parse_password_hash",
    "verify_password",
]

SALT_BYTES: Final = 4
"""Fixed by the interchange format: definitions carry salt and digest as one base64 text."""

ARGON2ID: Final = "argon2id"
OWN_HASH: Final = "leveret_password_hash"
"""Where definitions have a hash that RabbitMQ cannot verify; it does not read that."""

ARGON2_SALT_BYTES: Final = 16
ARGON2_DIGEST_BYTES: Final = 32


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

HASHING_ALGORITHMS: Final = (*_DIGESTS, ARGON2ID)
HASHING_ALGORITHM_DEFAULT: Final = HASHING_ALGORITHMS[0]
"""Of hashes that come without a word on how they were made (rule DE-04)."""

PASSWORD_HASHING: Final = {
    "argon2id": ARGON2ID,
    "sha256": "rabbit_password_hashing_sha256",
    "sha512": "rabbit_password_hashing_sha512",
}
"""What new passwords can be hashed with, as the configuration calls it."""


class Argon2Cost(NamedTuple):
    """What one hash takes; the defaults are OWASP's for argon2id."""

    memory_kib: int = 19_456
    passes: int = 2
    lanes: int = 1


ARGON2_COST_MAX: Final = Argon2Cost(memory_kib=262_144, passes=16, lanes=4)
"""Of hashes that were made elsewhere: more would let a definition burn the machine."""

_ARGON2_TEXT: Final = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,4}),p=(\d{1,4})"
    r"\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})\Z"
)


class PasswordHash(NamedTuple):
    """What is kept of a password."""

    algorithm: str
    salt: bytes
    digest: bytes
    cost: Argon2Cost = Argon2Cost()
    """Counts for argon2id only."""

    @property
    def is_slow(self) -> bool:
        """Whether to verify it takes long, by intent."""
        return self.algorithm == ARGON2ID

    def to_text(self) -> str:
        """Render as ``password_hash`` of definitions (rule C-25), argon2 in its usual form."""
        if self.algorithm != ARGON2ID:
            return base64.b64encode(self.salt + self.digest).decode("ascii")

        memory_kib, passes, lanes = self.cost
        salt, digest = (
            base64.b64encode(part).decode("ascii").rstrip("=") for part in (self.salt, self.digest)
        )
        return f"$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${digest}"

    def __repr__(self) -> str:
        return f"PasswordHash({self.algorithm!r}, ***)"


def make_password_hash(
    password: str, salt: bytes, algorithm: str = HASHING_ALGORITHM_DEFAULT
) -> PasswordHash:
    """Hash a new password.

    Args:
        password: not blank; a blank one could never log in (rule C-25).
        salt: fresh random bytes, as many as the algorithm takes.
        algorithm: one of :data:`HASHING_ALGORITHMS`.

    """
    if not password:
        raise ValueError("a blank password can never log in")

    size = _salt_bytes(algorithm)
    if len(salt) != size:
        raise ValueError(f"the salt must have {size} bytes")

    blank = PasswordHash(algorithm, salt, b"")
    return blank._replace(digest=_digest(blank, password))


def new_password_hash(
    password: str, algorithm: str, random_bytes: Callable[[int], bytes]
) -> PasswordHash:
    """The same with a salt that is made up; slow for argon2id, so not for an event loop."""
    return make_password_hash(password, random_bytes(_salt_bytes(algorithm)), algorithm)


def dummy_hash(algorithm: str) -> PasswordHash:
    """What is verified where there is no user, so that the answer takes as long (rule C-32)."""
    size = ARGON2_DIGEST_BYTES if algorithm == ARGON2ID else _DIGESTS[algorithm][1]
    return PasswordHash(algorithm, bytes(_salt_bytes(algorithm)), bytes(size))


def _salt_bytes(algorithm: str) -> int:
    return ARGON2_SALT_BYTES if algorithm == ARGON2ID else SALT_BYTES


def parse_password_hash(text: str, algorithm: str = HASHING_ALGORITHM_DEFAULT) -> PasswordHash:
    """Read the text of a definitions or configuration file.

    Raises:
        ValueError: saying what is wrong with the form, without showing the text.

    """
    if algorithm == ARGON2ID or text.startswith("$argon2"):
        # It says itself what it is.
        return _parse_argon2(text)

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

    return hmac.compare_digest(_digest(expected, password), expected.digest)


def _digest(made: PasswordHash, password: str) -> bytes:
    """The digest of a password, made as that other hash was."""
    raw = password.encode("utf-8", "surrogateescape")
    if made.algorithm != ARGON2ID:
        return _DIGESTS[made.algorithm][0](made.salt + raw)

    # Fifty milliseconds that only those wait who have such hashes.
    from argon2.low_level import Type, hash_secret_raw

    memory_kib, passes, lanes = made.cost
    return hash_secret_raw(
        raw,
        made.salt,
        time_cost=passes,
        memory_cost=memory_kib,
        parallelism=lanes,
        hash_len=len(made.digest) or ARGON2_DIGEST_BYTES,
        type=Type.ID,
    )


def _parse_argon2(text: str) -> PasswordHash:
    match = _ARGON2_TEXT.match(text)
    if match is None:
        raise ValueError("it is not of the form $argon2id$v=19$m=...,t=...,p=...$salt$digest")

    cost = Argon2Cost(*map(int, match.groups()[:3]))
    if not (8 * cost.lanes <= cost.memory_kib and cost.passes and cost.lanes) or any(
        given > most for given, most in zip(cost, ARGON2_COST_MAX, strict=True)
    ):
        limits = ",".join(f"{key}={most}" for key, most in zip("mtp", ARGON2_COST_MAX, strict=True))
        raise ValueError(f"it costs nothing, or more than {limits}")

    try:
        salt, digest = (
            base64.b64decode(part + "=" * (-len(part) % 4)) for part in match.groups()[3:]
        )
    except binascii.Error:
        raise ValueError("its salt or digest is not base64") from None

    return PasswordHash(ARGON2ID, salt, digest, cost)


def _other_algorithm(size: int) -> str:
    for name, (_, digest_bytes) in _DIGESTS.items():
        if size == SALT_BYTES + digest_bytes:
            return f"; they would be right for {name}"

    return ""
