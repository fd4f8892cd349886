"""Values as rabbitmqctl writes them; what stands here was recorded from RabbitMQ 3.10 and 4.3."""

from __future__ import annotations

import pytest

from broker.cli.ctl.terms import Atoms, Table, as_cell, as_erlang, as_json, compact_json, printable

ARGUMENTS = Table(
    {
        "x-max-length": 100,
        "x-dead-letter-exchange": "dlx",
        "x-foo": True,
        "x-tab": {"a": [1, "b"]},
    }
)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        pytest.param(None, "", id="nothing"),
        pytest.param(True, "true", id="boolean"),
        pytest.param(1.0, "1.0", id="float"),
        pytest.param("a b", "a b", id="text"),
        pytest.param(Atoms(["management", "policymaker"]), "[management, policymaker]", id="tags"),
        pytest.param(Atoms(), "[]", id="no-tags"),
        pytest.param(Table(), "[]", id="no-arguments"),
        pytest.param((0, 9, 1), "{0,9,1}", id="tuple"),
        pytest.param(
            ARGUMENTS,
            '[{"x-max-length",100},{"x-dead-letter-exchange","dlx"},{"x-foo",true},'
            '{"x-tab",[{"a",[1,"b"]}]}]',
            id="arguments",
        ),
    ],
)
def test_a_value_in_a_table(value: object, cell: str) -> None:
    assert as_cell(value) == cell


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(None, '""', id="nothing"),
        pytest.param(Atoms(["administrator"]), '["administrator"]', id="tags"),
        pytest.param(Table(), "[]", id="no-arguments"),
        pytest.param((0, 9, 1), "[0,9,1]", id="tuple"),
        pytest.param("ü", '"ü"', id="text"),
        pytest.param(
            ARGUMENTS,
            '[["x-max-length","signedint",100],["x-dead-letter-exchange","longstr","dlx"],'
            '["x-foo","bool",true],'
            '["x-tab","table",[["a","array",[["signedint",1],["longstr","b"]]]]]]',
            id="arguments",
        ),
        pytest.param(Table({"x": 2**31}), '[["x","long",2147483648]]', id="long"),
        pytest.param(Table({"x": 0.5}), '[["x","double",0.5]]', id="double"),
        pytest.param(Table({"x": None}), '[["x","void",null]]', id="void"),
    ],
)
def test_a_value_in_json(value: object, text: str) -> None:
    assert compact_json(as_json(value)) == text


@pytest.mark.parametrize(
    ("value", "term"),
    [
        pytest.param(None, "undefined", id="nothing"),
        pytest.param(Atoms(["a", "b-c", "D"]), "[a,'b-c','D']", id="tags"),
        pytest.param('q"\t\\', '<<"q\\"\\t\\\\">>', id="text"),
        pytest.param("ü", '<<"ü"/utf8>>', id="text-that-is-no-ascii"),
        pytest.param({"a": 1}, '#{<<"a">> => 1}', id="object"),
        pytest.param(
            ARGUMENTS,
            '[{<<"x-max-length">>,signedint,100},{<<"x-dead-letter-exchange">>,longstr,<<"dlx">>},'
            '{<<"x-foo">>,bool,true},'
            '{<<"x-tab">>,table,[{<<"a">>,array,[{signedint,1},{longstr,<<"b">>}]}]}]',
            id="arguments",
        ),
    ],
)
def test_a_value_in_erlang(value: object, term: str) -> None:
    assert as_erlang(value) == term


def test_octets_that_are_no_utf_8_can_be_shown() -> None:
    assert printable("q\udcff") == "q\\udcff"
