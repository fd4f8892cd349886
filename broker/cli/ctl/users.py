"""Users, their passwords, tags and limits (cli layer)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import (
    EXIT_DATA,
    EXIT_NO_USER,
    EXIT_SOFTWARE,
    EXIT_UNAVAILABLE,
    CtlError,
)
from broker.cli.ctl.printing import Done, Facts, Rows, Value
from broker.cli.ctl.terms import Atoms, compact_json
from broker.cli.ctl.transport import Credentials
from broker.cli.ctl.verb import Option, Run, Verb, json_argument, path

if TYPE_CHECKING:
    from broker.cli.ctl.printing import Result

__all__ = ["VERBS", "no_user", "password_of"]

GROUP: Final = "Users"
OK: Final = 200
UNAUTHORIZED: Final = 401
NOT_AUTHORIZED: Final = "not_authorized"
"""The error of a wrong password; who has the right one and no tag gets another."""

ADDED: Final = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! See"
    " 'rabbitmqctl help set_permissions' to learn more."
)


def no_user(name: str, status: int = EXIT_NO_USER) -> CtlError:
    """The error for a user who is not there."""
    return CtlError(f'User "{name}" does not exist', status)


def password_of(run: Run) -> str:
    """The password on the command line, or the first line of standard input."""
    if run.has("password"):
        return run["password"]

    if sys.stdin.isatty():
        from getpass import getpass

        return getpass("Password: ")

    return sys.stdin.readline().rstrip("\r\n")


def _user(run: Run) -> dict[str, object]:
    value = run.demand("GET", path("users", run["username"]), missing=no_user(run["username"]))
    assert isinstance(value, dict)
    return value


def _put(run: Run, facts: dict[str, object]) -> None:
    run.demand("PUT", path("users", run["username"]), facts)


def _new_password(run: Run) -> str:
    password = password_of(run)
    if not password:
        raise CtlError(
            "a blank password can never log in: give one, or use clear_password", EXIT_DATA
        )

    return password


def add_user(run: Run) -> Result:
    name = run["username"]
    password = _new_password(run)
    if run.client.ask("GET", path("users", name)).status == OK:
        raise CtlError(f'User "{name}" already exists', EXIT_SOFTWARE)

    key = "password_hash" if run.flag("pre_hashed_password") else "password"
    _put(run, {key: password, "tags": []})
    return Done(ADDED, is_hushed=True)


def delete_user(run: Run) -> Result:
    name = run["username"]
    run.demand("DELETE", path("users", name), missing=no_user(name))
    return Done()


def change_password(run: Run) -> Result:
    _put(run, {"password": _new_password(run), "tags": _user(run)["tags"]})
    return Done()


def clear_password(run: Run) -> Result:
    _put(run, {"password_hash": "", "tags": _user(run)["tags"]})
    return Done()


def authenticate_user(run: Run) -> Result:
    """A user who may not use the API has the right password all the same."""
    name = run["username"]
    asked = Credentials(name, password_of(run))
    answer = run.client.ask("GET", "/whoami", as_user=asked)
    value = answer.value
    error = value.get("error") if isinstance(value, dict) else None
    if answer.status == UNAUTHORIZED and error == NOT_AUTHORIZED:
        raise CtlError(
            f"failed to authenticate user \"{name}\": user '{name}' - invalid credentials",
            EXIT_DATA,
        )

    return Value("Success")


def set_user_tags(run: Run) -> Result:
    known = _user(run)
    kept = {key: known[key] for key in ("password_hash", "hashing_algorithm")}
    _put(run, {**kept, "tags": run.more})
    return Done()


def list_users(run: Run) -> Result:
    found = run.rows("/users")
    return Rows(
        ("user", "tags"), ((user["name"], Atoms(map(str, _list(user["tags"])))) for user in found)
    )


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def hash_password(run: Run) -> Result:
    value = run.demand("PUT", "/auth/hash_password", {"password": _new_password(run)})
    assert isinstance(value, dict)
    return Value(str(value["ok"]))


# -- limits


def set_user_limits(run: Run) -> Result:
    limits = json_argument(run["definition"])
    if not isinstance(limits, dict):
        raise CtlError("limits are a JSON object, such as '{\"max-connections\": 10}'", EXIT_DATA)

    _user(run)
    for name, value in limits.items():
        run.demand("PUT", path("user-limits", run["username"], name), {"value": value})

    return Done()


def clear_user_limits(run: Run) -> Result:
    wanted = run["limit_type"]
    _user(run)
    known = _limits_of(run, run["username"])
    if wanted != "all" and wanted not in ("max-connections", "max-channels"):
        raise CtlError(f"there is no limit '{wanted}': max-connections, max-channels or all")

    for name in known if wanted == "all" else [wanted]:
        run.demand("DELETE", path("user-limits", run["username"], name))

    return Done()


def _limits_of(run: Run, user: str) -> dict[str, object]:
    rows = run.rows(path("user-limits", user))
    value = rows[0]["value"] if rows else {}
    return value if isinstance(value, dict) else {}


def list_user_limits(run: Run) -> Result:
    if run.flag("global"):
        found = run.rows("/user-limits")
        rows = ((one["user"], compact_json(one["value"])) for one in found)
        return Rows(("user", "limits"), rows, is_blank_shown=True)

    name = run.text("user") or ""
    run.demand("GET", path("users", name), missing=no_user(name, EXIT_UNAVAILABLE))
    text = compact_json(_limits_of(run, name))
    return Facts({"message": text}, text)


def _limits_banner(run: Run) -> str:
    if run.flag("global"):
        return "Listing limits for all users ..."

    return f'Listing limits for user "{run.text("user")}" ...'


def _clear_banner(run: Run) -> str:
    name = run["username"]
    if run["limit_type"] == "all":
        return f'Clearing all limits for user "{name}" ...'

    return f'Clearing "{run["limit_type"]}" limit for user "{name}" ...'


VERBS: Final = (
    Verb(
        "add_user",
        GROUP,
        "Creates a new user, without permissions for any virtual host.",
        "<username> [password]",
        add_user,
        'Adding user "{username}" ...',
        (Option("--pre-hashed-password", text="the password is a hash, as of hash_password"),),
    ),
    Verb(
        "authenticate_user",
        GROUP,
        "Attempts to authenticate a user. Exits with a non-zero code if that fails.",
        "<username> [password]",
        authenticate_user,
        'Authenticating user "{username}" ...',
    ),
    Verb(
        "change_password",
        GROUP,
        "Changes the user password.",
        "<username> [password]",
        change_password,
        'Changing password for user "{username}" ...',
    ),
    Verb(
        "clear_password",
        GROUP,
        "Clears the password: nobody can log in with it.",
        "<username>",
        clear_password,
        'Clearing password for user "{username}" ...',
    ),
    Verb(
        "clear_user_limits",
        GROUP,
        "Clears user connection/channel limits.",
        "<username> <limit_type>",
        clear_user_limits,
        _clear_banner,
    ),
    Verb(
        "delete_user",
        GROUP,
        "Removes a user, and closes their connections.",
        "<username>",
        delete_user,
        'Deleting user "{username}" ...',
    ),
    Verb(
        "hash_password",
        GROUP,
        "Hashes a password, as definitions and --pre-hashed-password take it.",
        "[password]",
        hash_password,
        "Will hash a password ...",
    ),
    Verb(
        "list_user_limits",
        GROUP,
        "Displays configured user limits.",
        "",
        list_user_limits,
        _limits_banner,
        (
            Option("--user", "<username>", "whose limits", default="guest"),
            Option("--global", text="those of all users"),
        ),
    ),
    Verb("list_users", GROUP, "List user names and tags.", "", list_users, "Listing users ..."),
    Verb(
        "set_user_limits",
        GROUP,
        "Sets user limits, as a JSON object of max-connections and max-channels.",
        "<username> <definition>",
        set_user_limits,
        'Setting user limits to "{definition}" for user "{username}" ...',
    ),
    Verb(
        "set_user_tags",
        GROUP,
        "Sets user tags: administrator, monitoring, policymaker, management, impersonator, others.",
        "<username> [tag] ...",
        set_user_tags,
        'Setting tags for user "{username}" to [{more}] ...',
    ),
)
