"""What people get wrong in a configuration file, and what they are told.

Every case is a whole file but for the line ``version: 1``; every expectation is a whole line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.config.loader import load_config
from broker.config.problems import ConfigProblems

if TYPE_CHECKING:
    from pathlib import Path

ENVIRON = {"PORT": "99999", "LEVEL": "hunter2", "NUMBER": "12345"}


def problems_of(tmp_path: Path, text: str | bytes) -> list[str]:
    """Load and return the problems, without the directory."""
    path = tmp_path / "f.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigProblems) as caught:
        load_config(str(path), environ=ENVIRON)

    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


SYNTAX = [
    pytest.param(
        "log:\n\tlevel: info\n",
        "f.yaml:3:1: a tab indents this line - YAML is indented with spaces only",
        id="tab",
    ),
    pytest.param(
        "log:\n  level: info\n\tformat: text\n",
        "f.yaml:4:1: a tab indents this line - YAML is indented with spaces only",
        id="tab after spaces",
    ),
    pytest.param(
        "node:\n  name: a: b\n",
        "f.yaml:3:10: a second ': ' in one line - quote the text that contains the colon",
        id="unquoted colon",
    ),
    pytest.param(
        "log:\n  level:info\n  format: text\n",
        "f.yaml:3:8: a space is missing after this colon",
        id="no space after the colon",
    ),
    pytest.param(
        "log:\n  level: info\n format: text\n",
        "f.yaml:4:2: no line above has this line's indentation (1)"
        " - indent it like the lines it belongs with",
        id="indented less",
    ),
    pytest.param(
        "log:\n  level: info\n    format: text\n",
        "f.yaml:4:11: this line is indented deeper than line 3, which has its value already"
        " - give both the same indentation",
        id="indented more",
    ),
    pytest.param(
        "vhosts:\n  /:\n    bindings:\n    - {source: x, destination: y, routing_key: *.orders}\n",
        "f.yaml:5:49: a text that begins with * must be quoted: '*...'",
        id="star",
    ),
    pytest.param(
        "vhosts:\n  /:\n    bindings:\n    - {source: x, destination: y, routing_key: #}\n",
        "f.yaml:6:1: a value is missing before this, or a bracket is never closed"
        " - quote what contains a # after a space, it begins a comment",
        id="hash in brackets",
    ),
    pytest.param(
        'vhosts: {/: {permissions: {guest: {read: "^a\\.b"}}}}\n',
        "f.yaml:2:45: in double quotes a backslash begins an escape, and this is none"
        " - use single quotes, also for regular expressions: '^a\\.b'",
        id="backslash in double quotes",
    ),
    pytest.param(
        "node: {name: @x}\n",
        "f.yaml:2:14: a text that begins with @ must be quoted",
        id="at sign",
    ),
    pytest.param(
        "node: {name: 'x}\n",
        "f.yaml:2:14: the quote that opens here is never closed",
        id="open quote",
    ),
    pytest.param(
        "node:\n  name: 'it's'\n",
        "f.yaml:3:13: something follows the closing quote - a ' inside '...' is written twice,"
        ' a " inside "..." as \\"',
        id="quote in quotes",
    ),
    pytest.param(
        "node: {name: x\nlog: {level: info}\n",
        "f.yaml:3:4: inside the { opened in line 2 a comma or the closing } is missing before"
        " this - inside brackets quote texts that contain , { } [ ], and ${...} as well",
        id="open bracket",
    ),
    pytest.param(
        "listeners: {amqp: [{port: ${PORT}}]}\n",
        "f.yaml:2:28: inside the { opened in line 2 a comma or the closing } is missing before"
        " this - inside brackets quote texts that contain , { } [ ], and ${...} as well",
        id="variable in brackets",
    ),
    pytest.param(
        "users:\n  - name: a\n  name: b\n",
        "f.yaml:4:3: here a list goes on as a mapping - begin the line with '- ' or indent it"
        " otherwise",
        id="dash forgotten",
    ),
    pytest.param(
        "node:\n  name: a\n    b\n",
        "f.yaml:3:9: node.name: this text runs on over several lines - indent the next line less"
        " or put a space after its colon; quote the text if it is meant so",
        id="runs on",
    ),
    pytest.param(
        "---\nlog: {}\n",
        "f.yaml:2:1: a second document begins here - one file is one",
        id="second document",
    ),
    pytest.param(
        "node: {name: !!python/object:os.system x}\n",
        "f.yaml:2:14: node.name: tags are not supported - quote a text that begins with !",
        id="tag",
    ),
    pytest.param(
        "vhosts: &a {x: *a}\n",
        "f.yaml:2:16: vhosts.x: this alias stands inside what it names - quote a text that begins"
        " with *",
        id="alias of itself",
    ),
    pytest.param(
        "log: *l\n",
        "f.yaml:2:6: log: this alias names no anchor before it - quote a text that begins with *",
        id="alias of nothing",
    ),
    pytest.param(
        "? [a]\n: b\n",
        "f.yaml:2:3: a key must be a text - quote a text that begins with { or [",
        id="list as key",
    ),
    pytest.param(
        "node: {name: a\x07}\n",
        "f.yaml:2:15: the control character U+0007 cannot stand in YAML"
        ' - in double quotes write it as an escape, "\\x07"',
        id="control character",
    ),
]

TYPES = [
    pytest.param(
        "vhosts:\n  /:\n    queues:\n      orders:\n        durable: yes\n",
        "f.yaml:6:18: vhosts./.queues.orders.durable: expected true or false, got the text 'yes'"
        " - YAML 1.2 booleans are true and false",
        id="yes",
    ),
    pytest.param(
        "vhosts: {/: {queues: {a: {durable: 'false'}}}}\n",
        "f.yaml:2:36: vhosts./.queues.a.durable: expected true or false, got the text 'false'"
        " - write false, without quotes and in lower case",
        id="quoted boolean",
    ),
    pytest.param(
        "vhosts: {/: {queues: {a: {arguments: {x-single-active-consumer: on}}}}}\n",
        "f.yaml:2:65: vhosts./.queues.a.arguments.x-single-active-consumer: the text 'on' is"
        " ambiguous - write true or false, or quote it if it is a text",
        id="on in arguments",
    ),
    pytest.param(
        "vhosts: {/: {queues: {a: {arguments: {x-max-length: 0100}}}}}\n",
        "f.yaml:2:53: vhosts./.queues.a.arguments.x-max-length: the number 0100 is ambiguous - with"
        " a leading zero it is octal to some readers of YAML and decimal to others - write 100, or"
        " quote it if it is a text",
        id="octal-looking argument",
    ),
    pytest.param(
        "vhosts: {/: {queues: {a: {arguments: {x-max-length: null}}}}}\n",
        "f.yaml:2:53: vhosts./.queues.a.arguments.x-max-length: expected a value, got nothing"
        " - leave the key out",
        id="null argument, rule DE-11",
    ),
    pytest.param(
        "vhosts: {/: {queues: {a: {arguments: {x-max-length: 99999999999999999999}}}}}\n",
        "f.yaml:2:53: vhosts./.queues.a.arguments.x-max-length: the number"
        " 99999999999999999999 does not fit 64 bits",
        id="argument of more than 64 bits",
    ),
    pytest.param(
        "listeners: {amqp: [{port: 05672}]}\n",
        "f.yaml:2:27: listeners.amqp.0.port: expected a port from 0 to 65535, got the number 05672"
        " - with a leading zero it is octal to some readers of YAML and decimal to others - write"
        " 5672, or quote it if it is a text",
        id="octal-looking port",
    ),
    pytest.param(
        "listeners: {amqp: [{port: 70000}]}\n",
        "f.yaml:2:27: listeners.amqp.0.port: expected a port from 0 to 65535, got the number 70000",
        id="port out of range",
    ),
    pytest.param(
        "listeners: {amqp: [{port: '5672'}]}\n",
        "f.yaml:2:27: listeners.amqp.0.port: expected a port from 0 to 65535, got the text '5672'"
        " - remove the quotes",
        id="quoted port",
    ),
    pytest.param(
        "listeners: {amqp: [{port: 5_672}]}\n",
        "f.yaml:2:27: listeners.amqp.0.port: expected a port from 0 to 65535, got the text '5_672'"
        " - YAML 1.2 numbers have no underscores: 5672",
        id="underscores",
    ),
    pytest.param(
        "listeners: {amqp: [{bind: 'localhost:5672'}]}\n",
        "f.yaml:2:27: listeners.amqp.0.bind: expected a host name or an address, got the text"
        " 'localhost:5672' - the port has a key of its own, and an IPv6 address no brackets here",
        id="bind with port",
    ),
    pytest.param(
        "listeners: {amqp: {bind: localhost}}\n",
        "f.yaml:2:19: listeners.amqp: expected a list of listeners, each a mapping, got a mapping"
        " - begin each entry with '- '",
        id="mapping for list",
    ),
    pytest.param(
        "listeners: {amqp: []}\n",
        "f.yaml:2:13: listeners.amqp: nobody could connect: there is no listener here nor in amqps",
        id="no listener",
    ),
    pytest.param(
        "vhosts: {/: {queues: [{name: a}]}}\n",
        "f.yaml:2:22: vhosts./.queues: expected a mapping of queue names to their settings, got a"
        " list - write 'the name: {...}' instead of '- {name: the name, ...}'",
        id="list for mapping",
    ),
    pytest.param(
        "node: {name: 12}\n",
        "f.yaml:2:14: node.name: expected a name, got the number 12 - put it in quotes to make it"
        " a text",
        id="number for text",
    ),
    pytest.param(
        "node:\n  name\n",
        "f.yaml:3:3: node: expected a mapping with the keys of the node, got a text - a colon is"
        " missing after 'name'",
        id="colon forgotten",
    ),
    pytest.param(
        "vhosts:\n  /:\n    bindings:\n    - source: amq.topic\n      destination: q\n"
        "      routing_key: #\n    queues: {q: }\n",
        "f.yaml:7:19: vhosts./.bindings.0.routing_key: expected a text, got nothing - a # after a"
        " space begins a comment, quote a text that begins with #",
        id="hash as comment",
    ),
    pytest.param(
        "heartbeat: 60\n",
        "f.yaml:2:12: heartbeat: expected whole seconds, as 60s or 1m, from 0s to 65535s, got the"
        " number 60 - say the unit: 60s",
        id="time without unit",
    ),
    pytest.param(
        "limits: {handshake_timeout: 10sec}\n",
        "f.yaml:2:29: limits.handshake_timeout: expected a time as 500ms, 30s or 10m, from 0.1s to"
        " 3600s, got the text '10sec' - the units are ms, s, m, h and d",
        id="unknown unit of time",
    ),
    pytest.param(
        "limits: {max_message_size: 16mb}\n",
        "f.yaml:2:28: limits.max_message_size: expected a size as 131072, 128KiB or 16MiB from 1 to"
        " 536870912 bytes, got the text '16mb' - write 16MiB (powers of 1024) or 16MB (of 1000)",
        id="unknown unit of size",
    ),
    pytest.param(
        "limits: {frame_max: 4095}\n",
        "f.yaml:2:21: limits.frame_max: expected 0 for no limit, or a size as 131072, 128KiB or"
        " 16MiB from 4096 to 2147483647 bytes, got the number 4095",
        id="frame_max too small",
    ),
    pytest.param(
        "alarms: {memory: {limit: 0.6}}\n",
        "f.yaml:2:26: alarms.memory.limit: expected a share of the memory as 60%, a size as 512MiB,"
        " or null for no alarm, got the number 0.6 - write a share in percent: 60%",
        id="fraction",
    ),
    pytest.param(
        "storage: {sync: always}\n",
        "f.yaml:2:17: storage.sync: expected group, interval or none, got the text 'always'",
        id="sync",
    ),
    pytest.param(
        "storage: {data_dir: ''}\n",
        "f.yaml:2:21: storage.data_dir: expected the path of a directory, or null for the usual"
        " place, got the text '' - write null for the usual place",
        id="empty data_dir",
    ),
    pytest.param(
        "storage: {fsync: always}\n",
        "f.yaml:2:11: storage.fsync: unknown key - write sync: group, interval or none",
        id="fsync",
    ),
    pytest.param(
        "storage: {memory_only: true, data_dir: /srv/leveret}\n",
        "f.yaml:2:24: storage.memory_only: nothing is kept, and data_dir says where to keep it"
        " - remove one of the two",
        id="memory only with a directory",
    ),
    pytest.param(
        "alarms: {disk: {limit: 1GB}}\n",
        "f.yaml:2:17: alarms.disk.limit: unknown key - write free_limit: it is about what is free,"
        " not what is used",
        id="disk limit",
    ),
    pytest.param(
        "auth: {mechanisms: [plain]}\n",
        "f.yaml:2:21: auth.mechanisms.0: expected PLAIN, AMQPLAIN, ANONYMOUS or EXTERNAL, got"
        " the text 'plain' - write PLAIN, upper and lower case count",
        id="case counts",
    ),
    pytest.param(
        "vhosts: {/: {exchanges: {x: {type: topik}}}}\n",
        "f.yaml:2:36: vhosts./.exchanges.x.type: expected direct, fanout, topic, headers,"
        " x-consistent-hash, x-delayed-message, x-local-random, x-modulus-hash, x-random or"
        " x-recent-history, got the text 'topik' - did you mean 'topic'?",
        id="misspelt word",
    ),
    pytest.param(
        "vhosts: {/: {permissions: {guest: {read: '*'}}}}\n",
        "f.yaml:2:42: vhosts./.permissions.guest.read: the text '*' is not a regular expression:"
        " nothing to repeat at character 1 - a pattern is a regular expression: .* matches"
        " everything",
        id="glob",
    ),
    pytest.param(
        "vhosts: {/: {policies: {p: {pattern: '', definition: {}}}}}\n",
        "f.yaml:2:42: vhosts./.policies.p.definition: a policy must set something, as"
        " {message-ttl: 60000}",
        id="empty policy, rule PO-09",
    ),
    pytest.param(
        "vhosts: {/: {policies: {p: {pattern: '', definition: {x-message-ttl: 1}}}}}\n",
        "f.yaml:2:42: vhosts./.policies.p.definition: write message-ttl: the x- is for arguments"
        " only",
        id="x- in a policy",
    ),
]

KEYS = [
    pytest.param(
        "listner: {}\n",
        "f.yaml:2:1: listner: unknown key - did you mean 'listeners'?",
        id="misspelt",
    ),
    pytest.param(
        "frame_max: 8192\n",
        "f.yaml:2:1: frame_max: unknown key - it stands under limits",
        id="wrong level",
    ),
    pytest.param(
        "users: [{username: bob}]\n",
        "f.yaml:2:9: users.0.name: the key is missing - expected a user name",
        id="missing",
    ),
    pytest.param(
        "vhosts: {/: {queues: {a: {x-max-length: 5}}}}\n",
        "f.yaml:2:27: vhosts./.queues.a.x-max-length: unknown key - it belongs under arguments:"
        " arguments: {x-max-length: ...}",
        id="argument as key",
    ),
    pytest.param(
        "zzz: 1\n",
        "f.yaml:2:1: zzz: unknown key - the configuration has version, node, listeners, tls,"
        " auth, users, vhosts, storage, limits, heartbeat, log, compatibility, alarms, management,"
        " metrics",
        id="not even near",
    ),
    pytest.param(
        "vhosts:\n  /:\n    queues:\n      a: {}\n      b: {}\n      a: {}\n",
        "f.yaml:7:7: vhosts./.queues.a: the key is there twice, first in line 5 - keep one of them",
        id="a queue twice",
    ),
    pytest.param(
        "vhosts: {/: {queues: {amq.x: {}}}}\n",
        "f.yaml:2:23: vhosts./.queues.amq.x: names that begin with amq. are the broker's own"
        " - choose another",
        id="reserved name, rules E-21, Q-03",
    ),
]

REFERENCES = [
    pytest.param(
        "vhosts: {/: {queues: {orders: }, bindings: [{source: amq.topic, destination: order}]}}\n",
        "f.yaml:2:78: vhosts./.bindings.0.destination: there is no queue 'order' in the virtual"
        " host '/' - did you mean 'orders'?",
        id="queue",
    ),
    pytest.param(
        "vhosts: {/: {queues: {q: {}}, bindings: [{source: amq.topik, destination: q}]}}\n",
        "f.yaml:2:51: vhosts./.bindings.0.source: there is no exchange 'amq.topik' in the virtual"
        " host '/' - did you mean 'amq.topic'?",
        id="exchange",
    ),
    pytest.param(
        "vhosts: {/: {exchanges: {e: {}}, bindings: [{source: amq.topic, destination: e}]}}\n",
        "f.yaml:2:78: vhosts./.bindings.0.destination: there is no queue 'e' in the virtual host"
        " '/' - an exchange has that name: write type: exchange",
        id="exchange taken for a queue",
    ),
    pytest.param(
        "vhosts: {a: {queues: {q: {}}}, b: {bindings: [{source: amq.topic, destination: q}]}}\n",
        "f.yaml:2:80: vhosts.b.bindings.0.destination: there is no queue 'q' in the virtual host"
        " 'b'",
        id="queue of another virtual host",
    ),
    pytest.param(
        "vhosts: {/: {permissions: {gest: {}}}}\n",
        "f.yaml:2:28: vhosts./.permissions.gest: there is no user 'gest' - did you mean 'guest'?",
        id="user of a permission",
    ),
    pytest.param(
        "vhosts: {/: {topic_permissions: {guest: {amq.direct: {}}}}}\n",
        "f.yaml:2:42: vhosts./.topic_permissions.guest.amq.direct: the exchange is of type direct:"
        " topic permissions are for type topic only",
        id="topic permission for another type, rule PM-20",
    ),
    pytest.param(
        "auth: {anonymous_user: bob}\n",
        "f.yaml:2:24: auth.anonymous_user: there is no user 'bob'",
        id="anonymous user",
    ),
    pytest.param(
        "users: [{name: a, password: x}, {name: a, password: y}]\n",
        "f.yaml:2:40: users.1.name: the user 'a' is there twice, first as users.0 - keep one of"
        " them",
        id="user twice",
    ),
    pytest.param(
        "listeners: {amqp: [{port: 1}, {bind: 0.0.0.0, port: 1}]}\n",
        "f.yaml:2:53: listeners.amqp.1.port: 0.0.0.0 port 1 is taken by listeners.amqp.0"
        " (localhost) already - choose another port",
        id="port twice",
    ),
]


@pytest.mark.parametrize(("text", "expected"), SYNTAX)
def test_a_syntax_error_names_the_slip(tmp_path: Path, text: str, expected: str) -> None:
    assert problems_of(tmp_path, f"version: 1\n{text}") == [expected]


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_a_wrong_value_says_what_would_be_right(tmp_path: Path, text: str, expected: str) -> None:
    assert problems_of(tmp_path, f"version: 1\n{text}") == [expected]


@pytest.mark.parametrize(("text", "expected"), KEYS)
def test_a_wrong_key_says_what_was_meant(tmp_path: Path, text: str, expected: str) -> None:
    assert problems_of(tmp_path, f"version: 1\n{text}")[0] == expected


@pytest.mark.parametrize(("text", "expected"), REFERENCES)
def test_a_dangling_reference_says_what_is_near(tmp_path: Path, text: str, expected: str) -> None:
    assert problems_of(tmp_path, f"version: 1\n{text}") == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"", "f.yaml:1:1: version: the key is missing", id="empty"),
        pytest.param(b"# nothing\n", "f.yaml:1:1: version: the key is missing", id="comment"),
        pytest.param(b"log: {}\n", "f.yaml:1:1: version: the key is missing", id="no version"),
        pytest.param(b"version: 2\n", "f.yaml:1:10: version: expected the version", id="version 2"),
        pytest.param(b"hello", "f.yaml:1:1: expected a mapping", id="text"),
        pytest.param(b"- a\n", "f.yaml:1:1: expected a mapping", id="list"),
        pytest.param(b"\xff\xfeh\0", "f.yaml:1:1: the file is UTF-16", id="utf-16"),
        pytest.param(b"version: 1\nx: caf\xe9\n", "f.yaml:2:7: the byte 0xe9", id="latin-1"),
        pytest.param(b"version:1\nlog: {}\n", "f.yaml:1:8: a space is missing", id="no space"),
    ],
)
def test_a_file_that_is_no_configuration_says_so(
    tmp_path: Path, text: bytes, expected: str
) -> None:
    (problem,) = problems_of(tmp_path, text)
    assert problem.startswith(expected)


def test_all_independent_problems_are_told_at_once_in_the_order_of_the_file(
    tmp_path: Path,
) -> None:
    text = """version: 1
heartbeat: 60
lisners: {}
users:
  - {name: bob, pasword: x}
vhosts:
  /:
    permissions: {bbo: {configure: '('}}
    queues:
      orders: {durable: yes}
      orders: {}
    bindings:
      - {source: amq.topic, destination: orders}
      - {source: amq.topic, destination: ordres, routing_key: 5}
log: {level: loud}
"""
    places = [problem.split(": ")[:2] for problem in problems_of(tmp_path, text)]

    assert places == [
        ["f.yaml:2:12", "heartbeat"],
        ["f.yaml:3:1", "lisners"],
        ["f.yaml:5:17", "users.0.pasword"],
        ["f.yaml:8:19", "vhosts./.permissions.bbo"],
        ["f.yaml:8:36", "vhosts./.permissions.bbo.configure"],
        ["f.yaml:10:25", "vhosts./.queues.orders.durable"],
        ["f.yaml:11:7", "vhosts./.queues.orders"],
        ["f.yaml:14:42", "vhosts./.bindings.1.destination"],
        ["f.yaml:14:63", "vhosts./.bindings.1.routing_key"],
        ["f.yaml:15:14", "log.level"],
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("queues: [a]\n    ", id="queues are no mapping"),
        pytest.param("queues: {b: {}, b: {}, a: {durable: 5}}\n    ", id="queue damaged"),
    ],
)
def test_what_hangs_on_a_damaged_part_is_not_reported_as_well(tmp_path: Path, text: str) -> None:
    problems = problems_of(
        tmp_path,
        f"version: 1\nvhosts:\n  /:\n    {text}bindings: [{{source: amq.topic, destination: a}}]\n",
    )

    assert not [problem for problem in problems if "bindings" in problem]


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param("{name: bob, password: 12345}", id="number"),
        pytest.param("{name: bob, password: [hunter2]}", id="list"),
        pytest.param("{name: bob, password: {hunter2: x}}", id="mapping"),
        pytest.param("{name: bob, password: x,hunter2}", id="comma"),
        pytest.param("{name: bob, password: *hunter2}", id="alias"),
        pytest.param("{name: bob, password: @hunter2}", id="reserved character"),
        pytest.param("{name: bob, password: !hunter2 x}", id="tag"),
        pytest.param("{name: bob, password: '${hunter2}'}", id="variable"),
        pytest.param("{name: bob, password: '${hunter2'}", id="half a variable"),
        pytest.param("{name: bob, password:hunter2}", id="no space in brackets"),
        pytest.param("{name: bob, password_hash: hunter2}", id="password as hash"),
        pytest.param("{name: bob, hashing_algorithm: hunter2}", id="password as algorithm"),
        pytest.param("{name: bob, pass: hunter2}", id="unknown key"),
        pytest.param("bob:hunter2", id="text"),
        pytest.param("{name: bob, tags: hunter2}", id="text for list"),
        pytest.param("{name: '${NUMBER}', tags: '${LEVEL}', limits: '${LEVEL}'}", id="variables"),
        pytest.param("\n    name: bob\n    password:hunter2", id="no space"),
        pytest.param("\n    name: bob\n    password: hunter2: x", id="colon"),
        pytest.param("\n    name: bob\n    password: #hunter2", id="comment"),
        pytest.param("\n    name: bob\n\tpassword: hunter2", id="tab"),
        pytest.param("\n    name: bob\n    password: 'hunter2'x", id="after the quote"),
        pytest.param("\n    name: bob\n    password: hunter2\n      12345: x", id="runs on"),
    ],
)
def test_no_secret_is_shown(tmp_path: Path, entry: str) -> None:
    text = "\n".join(problems_of(tmp_path, f"version: 1\nusers:\n  - {entry}\n"))

    assert "hunter2" not in text
    assert "12345" not in text


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param(
            "password: a, password_hash: '+pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+'",
            "users.0.password_hash: password and password_hash are both there",
            id="both",
        ),
        pytest.param("password: ''", "users.0.password: it is blank", id="blank, rule C-25"),
        pytest.param("password_hash: x", "users.0.password_hash: it does not fit", id="bad hash"),
        pytest.param(
            "password: a, hashing_algorithm: rabbit_password_hashing_md5",
            "users.0.hashing_algorithm: it says how password_hash was made",
            id="algorithm alone",
        ),
        pytest.param(
            "password_file: /no/such/file",
            "users.0.password_file: '/no/such/file' cannot be read: no such file or directory",
            id="no file",
        ),
    ],
)
def test_a_password_that_cannot_be_used_says_why(tmp_path: Path, keys: str, expected: str) -> None:
    (problem,) = problems_of(tmp_path, f"version: 1\nusers: [{{name: bob, {keys}}}]\n")
    assert expected in problem


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("absent.yaml", "cannot be read: no such file or directory", id="absent"),
        pytest.param(".", "expected a file, got a directory", id="directory"),
        pytest.param("a\0b", "cannot be read: embedded null byte", id="NUL in the name"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, path: str, expected: str) -> None:
    with pytest.raises(ConfigProblems, match=expected):
        load_config(f"{tmp_path}/{path}")
