"""Two listeners cannot have one port, whatever they speak; a default in the way gives in."""

from __future__ import annotations

import pytest

from broker.config.loader import config_from_dict
from broker.config.problems import ConfigProblems

Plain = dict[str, object]


def listening(port: int, bind: str = "127.0.0.1") -> list[Plain]:
    return [{"bind": bind, "port": port}]


CLASHES = [
    pytest.param(
        {"listeners": {"amqp": listening(7)}, "management": {"listeners": listening(7)}},
        "management.listeners.0.port: 127.0.0.1 port 7 is taken by listeners.amqp.0 (127.0.0.1)",
        id="the HTTP API and AMQP",
    ),
    pytest.param(
        {"management": {"listeners": listening(5672)}},
        "management.listeners.0.port: 127.0.0.1 port 5672 is taken by listeners.amqp.0 (localhost)",
        id="the HTTP API and AMQP's default",
    ),
    pytest.param(
        {
            "management": {"listeners": listening(7, "::")},
            "metrics": {"prometheus": {"listeners": listening(7, "localhost")}},
        },
        "metrics.prometheus.listeners.0.port: localhost port 7 is taken by management.listeners.0",
        id="Prometheus and the HTTP API",
    ),
    pytest.param(
        {"listeners": {"datagram": [*listening(7), *listening(7)]}},
        "listeners.datagram.1.port: 127.0.0.1 port 7 is taken by listeners.datagram.0",
        id="two for datagrams",
    ),
]


@pytest.mark.parametrize(("data", "expected"), CLASHES)
def test_a_port_is_not_given_twice(data: Plain, expected: str) -> None:
    with pytest.raises(ConfigProblems) as caught:
        config_from_dict(data)

    [problem] = caught.value.problems
    assert expected in str(problem)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"listeners": {"amqp": listening(15672)}}, id="a default gives in"),
        pytest.param(
            {
                "listeners": {"amqp": listening(7)},
                "management": {"enabled": False, "listeners": listening(7)},
            },
            id="what is not enabled listens nowhere",
        ),
        pytest.param(
            {"listeners": {"amqp": listening(7), "datagram": listening(7)}}, id="TCP and UDP"
        ),
        pytest.param({"listeners": {"datagram": [*listening(0), *listening(0)]}}, id="any port"),
    ],
)
def test_ports_that_do_not_clash_are_all_right(data: Plain) -> None:
    config_from_dict(data)


@pytest.mark.parametrize(
    ("listener", "expected"),
    [
        ({"format": "raw", "routing_key": "{facility}"}, "{facility} is none of {source}, {port}"),
        ({"format": "gelf", "routing_key": "{"}, "it holds a brace that names nothing"),
        ({"max_rate": 0}, "from 1 to 1000000"),
        ({"max_size": "1GB"}, "from 1 to 16777216 bytes"),
    ],
)
def test_a_datagram_listener_is_checked(listener: Plain, expected: str) -> None:
    with pytest.raises(ConfigProblems, match=r"listeners\.datagram\.0") as caught:
        config_from_dict({"listeners": {"datagram": [listener]}})

    assert expected in str(caught.value)


@pytest.mark.parametrize("tag", ["env", "env:", ":prod", "a:b,c", "a: b", "a:b|c"])
def test_a_tag_has_a_name_and_a_value(tag: str) -> None:
    with pytest.raises(ConfigProblems, match=r"metrics\.statsd\.tags\.0"):
        config_from_dict({"metrics": {"statsd": {"tags": [tag]}}})


def test_tags_are_names_and_values() -> None:
    config = config_from_dict({"metrics": {"statsd": {"tags": ["env:prod", "url:a:b"]}}})
    assert config.metrics.statsd.tags == [("env", "prod"), ("url", "a:b")]


@pytest.mark.parametrize(
    ("text", "expected"), [("90%", 0.9), ("100%", 1.0), (None, None)], ids=["90", "100", "null"]
)
def test_the_alarm_of_file_descriptors_has_a_share_or_nothing(
    text: str | None, expected: float | None
) -> None:
    config = config_from_dict({"alarms": {"file_descriptors": {"limit": text}}})
    assert config.alarms.descriptors.limit_fraction == expected


@pytest.mark.parametrize("text", ["0%", "101%", "many", 90])
def test_a_share_has_a_percent_sign(text: object) -> None:
    with pytest.raises(ConfigProblems, match="a share as 90%"):
        config_from_dict({"alarms": {"file_descriptors": {"limit": text}}})


def test_kinds_of_events_may_have_levels_of_their_own() -> None:
    config = config_from_dict({"log": {"levels": {"connection": "warning", "queue": None}}})
    assert config.log.levels == (("connection", "warning"),)
