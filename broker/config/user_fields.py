"""The keys of a user (configuration layer).

Invariant: see ``broker.config.fields``, whose part this is.
"""

from __future__ import annotations

from typing import Final

from broker.auth.passwords import HASHING_ALGORITHMS
from broker.config.records import Key, ListOf, Record, Values
from broker.config.schema import Secret, UserConfig, UserLimitsConfig
from broker.config.shapes import Choice, Integer, Name, Nullable, SecretText, Text

__all__ = ["USER"]

_COUNT_MAX: Final = 2**31 - 1

LIMIT_CONNECTIONS: Final = Key(
    "max-connections", Nullable(Integer(0, _COUNT_MAX)), None, "Connections at a time."
)
LIMIT_CHANNELS: Final = Key(
    "max-channels", Nullable(Integer(0, _COUNT_MAX)), None, "Channels of all its connections."
)
USER_NAME: Final = Key("name", Name("a user name"), "", "The user's name.", is_required=True)
USER_PASSWORD: Final = Key(
    "password", Nullable(SecretText("a password as a text"), "none"), None, "The password itself."
)
USER_PASSWORD_FILE: Final = Key(
    "password_file",
    Nullable(Text("the path of a file"), "none"),
    None,
    "A file that holds the password, a line end after it is not part of it; a relative path starts"
    " at the configuration file.",
)
USER_PASSWORD_HASH: Final = Key(
    "password_hash",
    Nullable(SecretText("a password hash in base64"), "none"),
    None,
    "Base64 of salt and digest, as in RabbitMQ's definitions.",
)
USER_ALGORITHM: Final = Key(
    "hashing_algorithm",
    Choice(*HASHING_ALGORITHMS, is_shown=False),
    HASHING_ALGORITHMS[0],
    "How password_hash was made.",
)
USER_TAGS: Final = Key(
    "tags",
    ListOf("tags", Name("a tag")),
    (),
    "administrator, monitoring, policymaker, management, impersonator, or your own.",
)
USER_LIMITS: Final = Key(
    "limits",
    Record(
        "a user's limits",
        (LIMIT_CONNECTIONS, LIMIT_CHANNELS),
        lambda v: UserLimitsConfig(v[LIMIT_CONNECTIONS], v[LIMIT_CHANNELS]),
        {"connections": "write max-connections", "channels": "write max-channels"},
    ),
    UserLimitsConfig(),
    "max-connections and max-channels; -1 or null is no limit.",
)


def _secret(text: str | None) -> Secret | None:
    return None if text is None else Secret(text)


def _user(values: Values) -> UserConfig:
    return UserConfig(
        values[USER_NAME],
        password=_secret(values[USER_PASSWORD]),
        password_hash=_secret(values[USER_PASSWORD_HASH]),
        password_file=values[USER_PASSWORD_FILE],
        hashing_algorithm=values[USER_ALGORITHM],
        tags=values[USER_TAGS],
        limits=values[USER_LIMITS],
    )


USER: Final = Record(
    "a user",
    (
        USER_NAME,
        USER_PASSWORD,
        USER_PASSWORD_FILE,
        USER_PASSWORD_HASH,
        USER_ALGORITHM,
        USER_TAGS,
        USER_LIMITS,
    ),
    _user,
    {
        "user": "the user's name is called name",
        "username": "the user's name is called name",
        "login": "the user's name is called name",
        "pass": "write password",
        "roles": "write tags",
        "permissions": "permissions stand with the virtual host: vhosts./.permissions.NAME",
        "vhost": "permissions stand with the virtual host: vhosts./.permissions.NAME",
        "vhosts": "permissions stand with the virtual host: vhosts./.permissions.NAME",
    },
)
