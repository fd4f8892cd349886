"""Tables in each form, as rabbitmqctl has them."""

from __future__ import annotations

import pytest

from broker.cli.ctl.printing import FORMATS, Done, Facts, Lines, Printer, Result, Rows, Value
from broker.cli.ctl.terms import Atoms

USERS = Rows(("user", "tags"), [("guest", Atoms(["administrator"])), ("u", Atoms())])
NOBODY = Rows(("user", "tags"), [])
BOXES = """\
┌───────┬─────────────────┐
│ user  │ tags            │
├───────┼─────────────────┤
│ guest │ [administrator] │
├───────┼─────────────────┤
│ u     │ []              │
└───────┴─────────────────┘
"""
POLICIES = Rows(("name", "apply-to"), [], is_blank_shown=True)


def shown(capsys: pytest.CaptureFixture[str], result: Result, **settings: object) -> str:
    form = str(settings.get("form", "table"))
    printer = Printer(
        form,
        is_quiet=bool(settings.get("is_quiet", False)),
        has_headers=bool(settings.get("has_headers", True)),
    )
    printer.show(result)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("table", "user\ttags\nguest\t[administrator]\nu\t[]\n"),
        ("json", '[\n{"user":"guest","tags":["administrator"]}\n,{"user":"u","tags":[]}\n]\n'),
        ("csv", '"user","tags"\n"guest","[administrator]"\n"u","[]"\n'),
        (
            "erlang",
            '[[{user,<<"guest">>},{tags,[administrator]}],\n [{user,<<"u">>},{tags,[]}]]\n',
        ),
        (
            "pretty_table",
            BOXES,
        ),
    ],
)
def test_a_table_in_each_form(form: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, USERS, form=form) == text


@pytest.mark.parametrize(
    ("form", "text"),
    [("table", ""), ("json", "[\n]\n"), ("csv", ""), ("erlang", "[]\n"), ("pretty_table", "")],
)
def test_a_table_without_rows_has_no_header(
    form: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, NOBODY, form=form) == text


def test_some_tables_without_rows_are_an_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, POLICIES) == "\n"


@pytest.mark.parametrize("form", FORMATS)
def test_the_header_can_be_left_out(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, USERS, form=form, has_headers=False)
    assert "guest" in text
    # In JSON and Erlang each value has its name.
    assert ("tags" in text) == (form in ("json", "erlang"))


@pytest.mark.parametrize(
    ("result", "settings", "text"),
    [
        pytest.param(Value("Ping succeeded"), {"is_quiet": True}, "Ping succeeded\n", id="value"),
        pytest.param(Done(), {}, "", id="done"),
        pytest.param(Done("Done.", is_hushed=True), {}, "Done.\n", id="done-and-said"),
        pytest.param(Done("Done.", is_hushed=True), {"is_quiet": True}, "", id="done-and-hushed"),
        pytest.param(
            Value("yes"), {"form": "json"}, '{"message":"yes","result":"ok"}\n', id="value-in-json"
        ),
        pytest.param(Done(), {"form": "json"}, '{"result":"ok"}\n', id="done-in-json"),
        pytest.param(Facts({"a": 1}, "a is 1"), {}, "a is 1\n", id="facts"),
        pytest.param(Facts({"a": 1}, "a is 1"), {"form": "json"}, '{"a":1}\n', id="facts-in-json"),
        pytest.param(
            Facts({"a": 1}, "a"), {"form": "erlang"}, '#{<<"a">> => 1}\n', id="facts-in-erlang"
        ),
        pytest.param(Lines(["a", "b"]), {"form": "json"}, "a\nb\n", id="lines"),
    ],
)
def test_what_is_no_table(
    result: Result, settings: dict[str, object], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, result, **settings) == text


@pytest.mark.parametrize(
    ("form", "is_quiet", "is_said"),
    [
        ("table", False, True),
        ("pretty_table", False, True),
        ("erlang", False, True),
        ("json", False, False),
        ("csv", False, False),
        ("table", True, False),
    ],
)
def test_what_is_done_is_said_to_people_alone(
    form: str, is_quiet: bool, is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Printer(form, is_quiet=is_quiet).say("Listing users ...")
    assert bool(capsys.readouterr().out) == is_said
