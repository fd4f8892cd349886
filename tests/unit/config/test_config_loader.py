"""What comes out of configuration files, Python values and overrides."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from broker.config.default_file import default_file_text
from broker.config.fields import ROOT
from broker.config.json_schema import json_schema, json_schema_text
from broker.config.loader import config_from_dict, load_config
from broker.config.problems import ConfigProblems
from broker.config.records import Record
from broker.config.schema import (
    DEFAULT_CONFIG,
    AMQPListenerConfig,
    BindingConfig,
    Config,
    DiskAlarmConfig,
    ExchangeConfig,
    MemoryAlarmConfig,
    PermissionConfig,
    PolicyConfig,
    QueueConfig,
    Secret,
    StorageConfig,
    UserConfig,
)
from broker.config.shapes import Shape
from broker.config.yaml_text import TEXT_BYTES_MAX
from broker.wire.tables import Field

if TYPE_CHECKING:
    from tests.helpers.certificates import CertificateFiles

CONFIG_DIRECTORY = Path(__file__).parents[3] / "config"
EVERYTHING = (".*", ".*", ".*")


def load(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> Config:
    path = tmp_path / "f.yaml"
    path.write_text(f"version: 1\n{text}")
    return load_config(str(path), environ=environ or {})


def settings_of(config: Config) -> Config:
    """The configuration without where it came from."""
    return config._replace(origin=DEFAULT_CONFIG.origin)


# Defaults


def test_without_a_file_there_are_the_defaults() -> None:
    config = load_config(None)

    assert config is DEFAULT_CONFIG
    assert config.listeners.amqp == (AMQPListenerConfig("localhost", 5672, 1024),)
    assert [user.name for user in config.users] == ["guest"]
    assert config.vhosts[0].permissions == (PermissionConfig("guest", *EVERYTHING),)


def test_a_file_with_nothing_in_it_means_the_defaults(tmp_path: Path) -> None:
    assert settings_of(load(tmp_path, "")) == DEFAULT_CONFIG
    assert settings_of(config_from_dict({})) == DEFAULT_CONFIG
    assert settings_of(load(tmp_path, "node:\nlog:\n  # level: info\n")) == DEFAULT_CONFIG


def test_loading_the_defaults_imports_neither_yaml_nor_msgspec() -> None:
    script = (
        "import sys; from broker.config.loader import load_config; load_config(None);"
        "print([name for name in ('yaml', 'msgspec', 'difflib', 'broker.config.fields')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


# The files that are checked in


def test_the_checked_in_default_file_and_schema_are_up_to_date() -> None:
    assert (CONFIG_DIRECTORY / "leveret.yaml").read_text() == default_file_text()
    assert (CONFIG_DIRECTORY / "leveret.schema.json").read_text() == json_schema_text()


def test_the_default_file_equals_the_defaults() -> None:
    config = load_config(str(CONFIG_DIRECTORY / "leveret.yaml"), environ={})

    assert settings_of(config) == DEFAULT_CONFIG
    assert config.warnings == ()


def keys_of(shape: Shape[object]) -> set[str]:
    """Every key below a shape."""
    if isinstance(shape, Record):
        names = set(shape.keys)
        return names.union(*(keys_of(key.shape) for key in shape.keys.values()))

    inner = getattr(shape, "item", None) or getattr(shape, "inner", None)
    return keys_of(inner) if isinstance(inner, Shape) else set()


def test_the_default_file_shows_every_key() -> None:
    text = default_file_text()
    assert len(keys_of(ROOT)) > 50

    missing = {key for key in keys_of(ROOT) if not re.search(rf"\b{re.escape(key)}: ", text + " ")}
    sections = {key for key in missing if re.search(rf"^ *(# )?{re.escape(key)}:$", text, re.M)}
    assert missing - sections == set()


def test_the_examples_in_the_default_file_load_when_they_are_switched_on(
    tmp_path: Path, certificates: CertificateFiles
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from a file\n")
    text = re.sub(r"^( *)# (?!yaml-lang)", r"\1", default_file_text(), flags=re.M)
    path = tmp_path / "f.yaml"
    text = text.replace("/run/secrets/app", str(secret))
    for stem, files in {"tls": certificates.server, "example": certificates.wildcard}.items():
        text = text.replace(f"/etc/leveret/{stem}.crt", files.cert)
        text = text.replace(f"/etc/leveret/{stem}.key", files.key)

    path.write_text(text)
    config = load_config(str(path), environ={})
    vhost = config.vhosts[0]

    assert config.users[1].password == Secret("from a file")
    assert config.listeners.amqps[0].tls == config.tls[0].name
    assert [user.name for user in config.users] == ["guest", "app", "ops"]
    assert all([vhost.queues, vhost.exchanges, vhost.bindings, vhost.topic_permissions])
    assert all([vhost.policies, vhost.operator_policies])


@pytest.mark.parametrize("path", sorted((CONFIG_DIRECTORY / "examples").iterdir()), ids=str)
def test_the_examples_load_without_warnings(path: Path) -> None:
    assert load_config(str(path), environ={}).warnings == ()


def test_the_schema_has_every_key_with_a_description() -> None:
    described: set[str] = set()

    def visit(schema: object) -> None:
        if isinstance(schema, list):
            for item in schema:
                visit(item)
        elif isinstance(schema, dict):
            properties = schema.get("properties", {})
            described.update(key for key, value in properties.items() if value["description"])
            for value in [*schema.values(), *properties.values()]:
                visit(value)

    visit(json.loads(json.dumps(json_schema())))
    assert described == keys_of(ROOT)


# Values


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("'0'", 0),
        ("0s", 0),
        ("30s", 30),
        ("1m", 60),
        ("2 h", 7200),
        ("1000ms", 1),
        ('"60s"', 60),
    ],
)
def test_times_have_units(tmp_path: Path, text: str, seconds: int) -> None:
    assert load(tmp_path, f"heartbeat: {text}\n").heartbeat_s == seconds


def test_times_can_be_fractions_where_that_makes_sense(tmp_path: Path) -> None:
    config = load(tmp_path, "limits: {handshake_timeout: 0.5s}\n")

    assert config.limits.handshake_timeout_s == 0.5


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("131072", 131072),
        ("0x20000", 131072),
        ("128KiB", 131072),
        ("1.5MiB", 1572864),
        ("1 MB", 10**6),
        ("64kB", 64000),
        ("8192B", 8192),
        ("0", 0),
    ],
)
def test_sizes_may_have_units(tmp_path: Path, text: str, size: int) -> None:
    assert load(tmp_path, f"limits: {{frame_max: {text}}}\n").limits.frame_max_bytes == size


def test_the_storage_is_read_whole(tmp_path: Path) -> None:
    text = "storage: {data_dir: /srv/leveret, sync: interval, segment_size: 1MiB}\n"
    assert load(tmp_path, text).storage == StorageConfig("/srv/leveret", "interval", False, 2**20)
    text = "storage: {memory_only: true, data_dir: null}\n"
    assert load(tmp_path, text).storage == StorageConfig(None, "group", True, 2**24)


def test_a_relative_data_directory_starts_at_the_configuration(tmp_path: Path) -> None:
    config = load(tmp_path, "storage: {data_dir: '${DIR}/data'}\n", {"DIR": "below"})
    assert config.storage.data_dir == str(tmp_path / "below" / "data")


def test_a_relative_data_directory_from_elsewhere_starts_where_we_are(tmp_path: Path) -> None:
    assert config_from_dict({"storage": {"data_dir": "data"}}).storage.data_dir == "data"
    path = tmp_path / "f.yaml"
    path.write_text("version: 1\nstorage: {data_dir: other}\n")
    assert load_config(str(path), {"storage.data_dir": "data"}).storage.data_dir == "data"


@pytest.mark.parametrize(
    ("text", "expected"), [("1GB", 10**9), ("5000", 5000), ("null", None)], ids=str
)
def test_the_disk_alarm_has_a_size_or_nothing(
    tmp_path: Path, text: str, expected: int | None
) -> None:
    config = load(tmp_path, f"alarms: {{disk: {{free_limit: {text}}}}}\n")
    assert config.alarms.disk == DiskAlarmConfig(expected)
    assert config.alarms.memory == DEFAULT_CONFIG.alarms.memory


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60%", MemoryAlarmConfig(limit_fraction=0.6)),
        ("512MiB", MemoryAlarmConfig(limit_fraction=None, limit_bytes=2**29)),
        ("536870912", MemoryAlarmConfig(limit_fraction=None, limit_bytes=2**29)),
        ("null", MemoryAlarmConfig(limit_fraction=None)),
    ],
)
def test_the_memory_limit_is_a_share_a_size_or_nothing(
    tmp_path: Path, text: str, expected: MemoryAlarmConfig
) -> None:
    assert load(tmp_path, f"alarms: {{memory: {{limit: {text}}}}}\n").alarms.memory == expected


@pytest.mark.parametrize(("text", "expected"), [("-1", None), ("null", None), ("0", 0), ("7", 7)])
def test_a_negative_limit_is_none(tmp_path: Path, text: str, expected: int | None) -> None:
    """Rule PM-30."""
    config = load(tmp_path, f"vhosts: {{/: {{limits: {{max-queues: {text}}}}}}}\n")

    assert config.vhosts[0].limits.queues_max == expected


def test_texts_are_what_yaml_1_2_says(tmp_path: Path) -> None:
    names = ["no", "on", "y", "12:30", "2024-01-01", "1e", "=", "+", "é", "a.b"]
    text = "".join(f"      {name}: {{}}\n" for name in names)
    config = load(tmp_path, f"vhosts:\n  /:\n    queues:\n{text}")

    assert [queue.name for queue in config.vhosts[0].queues] == names


def test_arguments_get_the_types_of_definitions(tmp_path: Path) -> None:
    """Rule DE-11."""
    arguments = "{i: 1, f: 1.0, e: 1e3, s: x, q: '1', b: true, t: {n: -1}, a: [1, x], h: 0xff}"
    config = load(tmp_path, f"vhosts: {{/: {{queues: {{q: {{arguments: {arguments}}}}}}}}}\n")

    assert config.vhosts[0].queues[0].arguments == {
        "i": Field("l", 1),
        "f": Field("d", 1.0),
        "e": Field("d", 1000.0),
        "s": Field("S", "x"),
        "q": Field("S", "1"),
        "b": Field("t", True),
        "t": Field("F", {"n": Field("l", -1)}),
        "a": Field("A", [Field("l", 1), Field("S", "x")]),
        "h": Field("l", 255),
    }


def test_a_virtual_host_is_read_whole(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
vhosts:
  v:
    exchanges:
      e: {type: headers, durable: false, auto_delete: true, internal: true}
      plain:
    queues:
      q: {durable: false, auto_delete: true}
      plain: {}
    bindings:
      - {source: e, destination: q, arguments: {x-match: any}}
      - {source: amq.topic, destination: e, type: exchange, routing_key: '#'}
    policies:
      p: {pattern: '^q', apply-to: queues, priority: -5, definition: {max-length: 5}}
""",
    )
    vhost = config.vhosts[0]

    assert vhost.exchanges == (
        ExchangeConfig("e", "headers", False, True, True, {}),
        ExchangeConfig("plain", "direct", True, False, False, {}),
    )
    assert vhost.queues == (
        QueueConfig("q", False, True, {}),
        QueueConfig("plain", True, False, {}),
    )
    assert vhost.bindings == (
        BindingConfig("e", "q", "queue", "", {"x-match": Field("S", "any")}),
        BindingConfig("amq.topic", "e", "exchange", "#", {}),
    )
    assert vhost.policies == (PolicyConfig("p", "^q", "queues", -5, {"max-length": 5}),)


def test_aliases_and_merge_keys_work(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
vhosts:
  /:
    queues:
      a: &a {durable: false, auto_delete: true}
      b: {<<: *a, durable: true}
      c: {durable: true, <<: [*a]}
      d: *a
""",
    )

    assert [(queue.durable, queue.auto_delete) for queue in config.vhosts[0].queues] == [
        (False, True),
        (True, True),
        (True, True),
        (False, True),
    ]


# Permissions nobody wrote


def test_without_virtual_hosts_all_users_may_do_everything_in_the_one(tmp_path: Path) -> None:
    config = load(tmp_path, "users: [{name: a, password: x}, {name: b, password: y}]\n")

    assert config.vhosts[0].name == "/"
    assert config.vhosts[0].permissions == (
        PermissionConfig("a", *EVERYTHING),
        PermissionConfig("b", *EVERYTHING),
    )


@pytest.mark.parametrize(
    ("vhost", "expected"),
    [
        pytest.param("v: {}", ["boss"], id="none written"),
        pytest.param("v:", ["boss"], id="nothing written"),
        pytest.param("v: {permissions: {}}", [], id="written empty"),
        pytest.param("v: {permissions: {a: {}}}", ["a"], id="written"),
    ],
)
def test_forgotten_permissions_do_not_open_a_virtual_host(
    tmp_path: Path, vhost: str, expected: list[str]
) -> None:
    config = load(
        tmp_path,
        "users: [{name: a, password: x}, {name: boss, password: y, tags: [administrator]}]\n"
        f"vhosts:\n  {vhost}\n",
    )

    assert [permission.user for permission in config.vhosts[0].permissions] == expected


# Variables


def test_variables_take_the_type_that_is_expected(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
node: {name: 'a-${HOST:-x}-$${HOST}'}
listeners: {amqp: [{port: "${PORT}"}]}
heartbeat: ${BEAT:-30s}
users: [{name: "${NAME}", password: "${PW}"}]
vhosts: {/: {queues: {q: {durable: "${DURABLE}", arguments: {x-max-length: "${MAX}"}}}}}
""",
        {"PORT": "1234", "NAME": "12", "PW": "0123", "DURABLE": "false", "MAX": "9", "HOST": ""},
    )
    queue = config.vhosts[0].queues[0]

    assert config.node.name == "a-x-${HOST}"
    assert config.listeners.amqp[0].port == 1234
    assert config.heartbeat_s == 30
    assert config.users[0] == UserConfig("12", password=Secret("0123"))
    assert (queue.durable, queue.arguments) == (False, {"x-max-length": Field("l", 9)})


def test_what_a_variable_holds_is_not_looked_into_again(tmp_path: Path) -> None:
    config = load(tmp_path, "node: {name: 'x${A}'}\n", {"A": "${B}", "B": "b"})

    assert config.node.name == "x${B}"


def test_a_relative_password_file_starts_at_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "pw").write_bytes(b"s3cret \r\n")
    config = load(tmp_path, "users: [{name: a, password_file: pw}]\n")

    assert config.users[0].password == Secret("s3cret ")


# Overrides and Python values


def test_overrides_replace_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("version: 1\nlog: {level: debug}\nlisteners: {amqp: [{port: 1}, {port: 2}]}\n")
    config = load_config(
        str(path), {"log.format": "json", "listeners.amqp.1.bind": "::1", "heartbeat": "5s"}
    )

    assert (config.log.level, config.log.format) == ("debug", "json")
    assert [(entry.bind, entry.port) for entry in config.listeners.amqp] == [
        ("localhost", 1),
        ("::1", 2),
    ]
    assert config.heartbeat_s == 5


def test_overrides_need_no_file() -> None:
    config = load_config(None, {"listeners.amqp.0.port": 0})

    assert config.listeners.amqp == (AMQPListenerConfig(port=0),)
    assert settings_of(config)._replace(listeners=DEFAULT_CONFIG.listeners) == DEFAULT_CONFIG


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ({"log.level": "loud"}, "overrides: log.level: expected debug"),
        (
            {"heartbeat": "60"},
            "overrides: heartbeat: expected whole seconds, as 60s",
        ),
        ({"log.levle": "info"}, "overrides: log.levle: unknown key - did you mean 'level'?"),
        ({"listeners.amqp.5.port": 1}, "overrides: listeners.amqp.5.port: there is no such place"),
        ({"heartbeat": b"5s"}, "overrides: heartbeat: expected a dict, list, str"),
        ({"": 1}, "overrides: : unknown key"),
    ],
)
def test_a_bad_override_says_where_it_came_from(override: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigProblems) as caught:
        load_config(None, override)

    assert str(caught.value).startswith(expected.replace(": : ", ": ", 1))


def test_python_values_are_checked_as_files_are() -> None:
    with pytest.raises(ConfigProblems) as caught:
        config_from_dict(
            {
                "heartbeat": 5,
                "users": [{"name": "bob", "password": 5}],
                "vhosts": {"/": {"queues": {"q": {"durable": "yes"}, 5: {}}}},
                "log": object(),
            }
        )

    assert [problem.key for problem in caught.value.problems] == [
        "vhosts./.queues",
        "log",
        "heartbeat",
        "users.0.password",
        "vhosts./.queues.q.durable",
    ]


def test_python_values_leave_dollars_alone() -> None:
    assert config_from_dict({"node": {"name": "${X}"}}).node.name == "${X}"


# Warnings and places


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "users: [{name: a, password: x}]\nvhosts: {/: {permissions: {}}}\n",
            "f.yaml:2:9: users.0: the user 'a' has no permissions in any virtual host",
            id="no permissions",
        ),
        pytest.param(
            "users: [{name: a}]\n",
            "f.yaml:2:9: users.0: the user 'a' has no password and cannot log in",
            id="no password",
        ),
        pytest.param(
            "auth: {loopback_only_users: []}\nlisteners: {amqp: [{bind: 0.0.0.0}]}\n",
            "f.yaml: users.0: anybody on the network can log in as guest",
            id="guest for everybody",
        ),
        pytest.param(
            "vhosts: {/: {queues: {q: {arguments: {x-dead-letter-exchange: amq.direkt}}}}}\n",
            "f.yaml:2:27: vhosts./.queues.q.arguments: there is no exchange 'amq.direkt' in this"
            " file - did you mean 'amq.direct'?",
            id="dead letters into nowhere",
        ),
        pytest.param(
            "vhosts: {/: {policies: {p: {pattern: '', definition: {alternate-exchange: x}}}}}\n",
            "f.yaml:2:42: vhosts./.policies.p.definition: there is no exchange 'x' in this file",
            id="alternate exchange of a policy",
        ),
    ],
)
def test_what_is_probably_not_meant_is_a_warning(tmp_path: Path, text: str, expected: str) -> None:
    (warning,) = load(tmp_path, text).warnings
    assert str(warning).replace(f"{tmp_path}/", "").startswith(expected)


def test_later_complaints_can_point_into_the_file(tmp_path: Path) -> None:
    config = load(tmp_path, "vhosts:\n  /:\n    queues:\n      orders.in:\n        durable: true\n")
    keys = ("vhosts", "/", "queues", "orders.in")
    problem = config.origin.problem((*keys, "arguments", "x-max-length"), "too long")

    assert (problem.line, problem.column) == (5, 7)
    assert problem.key == "vhosts./.queues.orders.in.arguments.x-max-length"
    assert config.origin.problem(("nowhere",), "lost").line == 0


def test_secrets_do_not_show_themselves(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "auth: {anonymous_password: hunter2}\nusers: [{name: a, password: hunter2},"
        " {name: b, password_hash: '+pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+'}]\n",
    )

    assert "hunter2" not in repr(config)
    assert "pHuxk" not in f"{config!r} {config.users[1].password_hash}"


# Hostile files


@pytest.fixture(params=[True, False], ids=["libyaml", "pure python"])
def libyaml(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both parsers a machine may have."""
    if request.param and not yaml.__with_libyaml__:
        pytest.skip("libyaml is not here")

    monkeypatch.setattr(yaml, "__with_libyaml__", request.param)
    return bool(request.param)


def aliases(levels: int) -> str:
    names = [f"a{level}" for level in range(levels)]
    lines = [f"{names[0]}: &{names[0]} [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]" for before, name in pairwise(names)
    ]
    return "\n".join(lines)


@pytest.mark.usefixtures("libyaml")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(aliases(12), "more than 500000 values", id="alias bomb"),
        pytest.param("x: " + "[" * 3000, "nested", id="deep lists"),
        pytest.param("x: " + "{a: " * 3000, "nested", id="deep mappings"),
        pytest.param(
            "\n".join(" " * depth + "a:" for depth in range(300)), "nested", id="deep blocks"
        ),
        pytest.param("heartbeat: 1" + "0" * 5000, "heartbeat: expected", id="long number"),
        pytest.param("a: b: " * 20_000, "second ': '", id="long line"),
        pytest.param("x: ['" + "\\" * 20_000 + "' y]", "missing", id="backslashes"),
    ],
)
def test_hostile_text_is_refused_soon(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigProblems, match=expected):
        load(tmp_path, text)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"#" * (TEXT_BYTES_MAX + 1))
    with pytest.raises(ConfigProblems, match="more than 8388608 bytes"):
        load_config(str(path))


def test_thousands_of_dangling_references_take_no_time_to_explain(tmp_path: Path) -> None:
    queues = "".join(f"      order.{number}: {{}}\n" for number in range(2000))
    bindings = "".join(
        f"    - {{source: amq.topic, destination: orders.{number}}}\n" for number in range(2000)
    )
    text = f"vhosts:\n  /:\n    queues:\n{queues}    bindings:\n{bindings}"
    with pytest.raises(ConfigProblems) as caught:
        load(tmp_path, text)

    hinted = [problem for problem in caught.value.problems if "did you mean" in problem.message]
    assert len(caught.value.problems) == 200
    assert 0 < len(hinted) <= 20


def test_endless_problems_are_cut(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblems) as caught:
        load(tmp_path, "".join(f"k{number}: 1\n" for number in range(1000)))

    assert len(caught.value.problems) == 200


@pytest.mark.usefixtures("libyaml")
def test_the_default_file_loads_with_either_parser() -> None:
    config = load_config(str(CONFIG_DIRECTORY / "leveret.yaml"), environ={})

    assert settings_of(config) == DEFAULT_CONFIG
