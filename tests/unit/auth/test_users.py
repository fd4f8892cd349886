"""Users: who logs in, and what changes when they change (rules C-32, C-36, PM-01..PM-31)."""

from __future__ import annotations

import pytest

from broker.auth.passwords import make_password_hash
from broker.auth.users import AuthenticationError, UserStore, configure_users
from broker.config.loader import config_from_dict
from broker.config.schema import DEFAULT_CONFIG


def zero_bytes(count: int) -> bytes:
    return bytes(count)


@pytest.fixture
def store() -> UserStore:
    store = UserStore(loopback_only_users=["local"])
    for name in ("bob", "local"):
        store.add_user(name, make_password_hash("right", b"salt"))

    store.add_user("barred", None)
    return store


def test_the_right_password_logs_in(store: UserStore) -> None:
    assert store.authenticate("bob", "right", is_loopback=False) is store.users["bob"]


@pytest.mark.parametrize(
    ("name", "password", "is_loopback", "reason"),
    [
        pytest.param("eve", "right", True, "no such user", id="unknown user"),
        pytest.param("bob", "wrong", True, "password is wrong", id="wrong password"),
        pytest.param("bob", "", True, "blank", id="blank password, rule C-25"),
        pytest.param("bob", None, True, "blank", id="no password"),
        pytest.param("barred", "right", True, "no password", id="user without password"),
        pytest.param("local", "right", False, "this machine", id="from afar, rule C-36"),
        pytest.param("local", "wrong", False, "password is wrong", id="from afar and wrong"),
    ],
)
def test_a_refused_login_says_why_to_the_log(
    store: UserStore, name: str, password: str | None, is_loopback: bool, reason: str
) -> None:
    with pytest.raises(AuthenticationError, match=reason) as caught:
        store.authenticate(name, password, is_loopback=is_loopback)

    assert caught.value.user == name
    assert "right" not in caught.value.reason


def test_a_loopback_only_user_logs_in_from_this_machine(store: UserStore) -> None:
    assert store.authenticate("local", "right", is_loopback=True).name == "local"


def test_the_dummy_password_lets_nobody_in(store: UserStore) -> None:
    for name in ("eve", "barred"):
        with pytest.raises(AuthenticationError):
            store.authenticate(name, "nobody", is_loopback=True)


def test_without_a_permission_there_is_no_access(store: UserStore) -> None:
    """Rule PM-02."""
    user = store.users["bob"]

    assert user.permission("/") is None
    assert not user.allows("read", vhost="/", name="")


def test_permissions_hold_for_their_virtual_host_alone(store: UserStore) -> None:
    """Rule PM-02."""
    store.set_permissions("bob", vhost="a", configure=".*", write="", read="^q")
    user = store.users["bob"]

    assert user.allows("configure", vhost="a", name="x")
    assert not user.allows("write", vhost="a", name="x")
    assert not user.allows("configure", vhost="b", name="x")


def test_without_a_topic_permission_all_keys_are_allowed(store: UserStore) -> None:
    user = store.users["bob"]
    assert user.allows_topic("write", vhost="a", exchange="t", routing_key="k")

    store.set_topic_permissions("bob", vhost="a", exchange="t", write="^{username}$", read="")
    assert not user.allows_topic("write", vhost="a", exchange="t", routing_key="k")
    assert user.allows_topic("write", vhost="a", exchange="t", routing_key="bob")
    assert user.allows_topic("write", vhost="a", exchange="other", routing_key="k")
    assert user.allows_topic("write", vhost="b", exchange="t", routing_key="k")


def test_every_change_of_what_is_allowed_is_a_new_generation(store: UserStore) -> None:
    user = store.users["bob"]
    seen = [user.generation]
    store.set_permissions("bob", vhost="a", configure="", write="", read="")
    seen.append(user.generation)
    store.set_topic_permissions("bob", vhost="a", exchange="t", write="", read="")
    seen.append(user.generation)
    store.clear_topic_permissions("bob", vhost="a", exchange="t")
    seen.append(user.generation)
    store.clear_permissions("bob", vhost="a")
    seen.append(user.generation)
    store.delete_user("bob")
    seen.append(user.generation)

    assert seen == sorted(set(seen))


def test_a_bad_pattern_changes_nothing(store: UserStore) -> None:
    store.set_permissions("bob", vhost="a", configure="^x", write="", read="")
    generation = store.users["bob"].generation
    with pytest.raises(ValueError, match="missing"):
        store.set_permissions("bob", vhost="a", configure="(", write="", read="")

    assert store.users["bob"].allows("configure", vhost="a", name="x")
    assert store.users["bob"].generation == generation


def test_a_deleted_user_may_do_nothing_and_cannot_log_in(store: UserStore) -> None:
    store.set_permissions("bob", vhost="a", configure=".*", write=".*", read=".*")
    user = store.users["bob"]

    assert store.delete_user("bob")
    assert not store.delete_user("bob")
    assert user.permission("a") is None
    with pytest.raises(AuthenticationError):
        store.authenticate("bob", "right", is_loopback=True)


def test_adding_a_user_again_keeps_the_permissions(store: UserStore) -> None:
    store.set_permissions("bob", vhost="a", configure=".*", write=".*", read=".*")
    user = store.add_user("bob", make_password_hash("new", b"salt"), tags=["impersonator"])

    assert user.permission("a") is not None
    assert user.is_impersonator
    assert store.authenticate("bob", "new", is_loopback=True) is user


def test_a_forgotten_virtual_host_leaves_no_permissions(store: UserStore) -> None:
    for vhost in ("a", "b"):
        store.set_permissions("bob", vhost=vhost, configure=".*", write=".*", read=".*")
        store.set_topic_permissions("bob", vhost=vhost, exchange="t", write="", read="")

    store.forget_vhost("a")
    assert set(store.users["bob"].permissions) == {"b"}
    assert set(store.users["bob"].topic_permissions) == {("b", "t")}


def test_the_default_configuration_has_guest_on_loopback() -> None:
    """Rule PM-01."""
    store = UserStore(loopback_only_users=DEFAULT_CONFIG.auth.loopback_only_users)
    configure_users(store, DEFAULT_CONFIG, random_bytes=zero_bytes)
    guest = store.authenticate("guest", "guest", is_loopback=True)

    assert guest.tags == ("administrator",)
    assert all(guest.allows(op, vhost="/", name="x") for op in ("configure", "write", "read"))
    with pytest.raises(AuthenticationError):
        store.authenticate("guest", "guest", is_loopback=False)


def test_users_are_built_with_hashes_limits_and_permissions() -> None:
    """Rule PM-01."""
    config = config_from_dict(
        {
            "users": [
                {"name": "a", "password": "pw", "limits": {"max-connections": 3}},
                {
                    "name": "b",
                    "password_hash": make_password_hash("pw", b"1234").to_text(),
                    "limits": {"max-channels": -1},
                },
            ],
            "vhosts": {
                "v": {
                    "permissions": {"a": {"read": "^q"}, "b": {}},
                    "topic_permissions": {"a": {"amq.topic": {"write": "^k$"}}},
                }
            },
        }
    )
    store = UserStore()
    configure_users(store, config, random_bytes=zero_bytes)
    first = store.authenticate("a", "pw", is_loopback=False)
    second = store.authenticate("b", "pw", is_loopback=False)

    assert (first.connections_max, first.channels_max) == (3, None)
    assert second.channels_max is None
    assert first.password_hash == make_password_hash("pw", bytes(4))
    assert second.password_hash == make_password_hash("pw", b"1234")
    assert first.allows("read", vhost="v", name="queue")
    assert not first.allows("write", vhost="v", name="queue")
    assert first.allows_topic("write", vhost="v", exchange="amq.topic", routing_key="k")
    assert not first.allows_topic("write", vhost="v", exchange="amq.topic", routing_key="x")


def test_a_configuration_prevails_over_users_who_are_there_and_tells() -> None:
    config = config_from_dict(
        {
            "users": [
                {"name": "same", "password": "pw", "tags": ["t"], "limits": {"max-channels": 1}},
                {"name": "other", "password": "pw", "tags": ["t"]},
                {"name": "new", "password": "pw"},
            ],
            "vhosts": {
                "v": {
                    "permissions": {"same": {"read": "a"}, "other": {"read": "a"}, "new": {}},
                    "topic_permissions": {
                        "same": {"amq.topic": {"write": "a"}},
                        "other": {"amq.topic": {"write": "a"}},
                    },
                }
            },
        }
    )
    store = UserStore()
    salted = make_password_hash("pw", b"salt")
    store.add_user("same", salted, tags=["t"]).channels_max = 1
    store.add_user("other", make_password_hash("old", b"salt")).connections_max = 5
    store.add_user("kept", salted)
    for name, pattern in (("same", "a"), ("other", "b"), ("kept", "c")):
        store.set_permissions(name, vhost="v", configure="", write="", read=pattern)
        store.set_topic_permissions(name, vhost="v", exchange="amq.topic", write=pattern, read="")

    generation = store.users["kept"].generation
    overruled: list[tuple[str, str]] = []
    configure_users(
        store,
        config,
        random_bytes=zero_bytes,
        on_overruled=lambda user, what: overruled.append((user, what)),
    )
    assert overruled == [
        ("other", "password"),
        ("other", "tags"),
        ("other", "limits"),
        ("other", "permissions in v"),
        ("other", "topic permissions in v"),
    ]
    assert store.users["same"].password_hash is salted
    other = store.authenticate("other", "pw", is_loopback=True)
    assert (other.tags, other.connections_max) == (("t",), None)
    assert other.allows("read", vhost="v", name="a")
    assert not other.allows("read", vhost="v", name="b")
    assert store.users["kept"].generation == generation
    assert store.users["kept"].allows("read", vhost="v", name="c")
