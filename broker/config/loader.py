"""From a file, or from Python values, to a ``Config`` (configuration layer).

Invariant: either a complete, checked ``Config`` comes out, or ``ConfigProblems`` with everything
that is independently wrong. Without a file, nothing of YAML is imported.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from broker.config.problems import ConfigProblems, Origin, Place, Problem
from broker.config.schema import DEFAULT_CONFIG, Config, Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.config.problems import Keys
    from broker.config.schema import TLSCredentials, UserConfig
    from broker.config.tree import MapNode, Report

__all__ = ["config_from_dict", "load_config"]

_PASSWORD_FILE_BYTES_MAX: Final = 4096


def load_config(
    path: str | None,
    overrides: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Read the configuration of a server.

    Args:
        path: a YAML file; None takes the defaults.
        overrides: what the command line says, as ``{"log.level": "debug"}``; a number counts the
            places of a list, as in ``listeners.amqp.0.port``.
        environ: for ``${NAME}`` in the file, by default the process's environment.

    Raises:
        ConfigProblems: the file cannot be read, or what it says cannot be used.

    """
    if path is None and not overrides:
        return DEFAULT_CONFIG

    # Imported here: the defaults, which most embedded brokers and tests run with, need none of it.
    from broker.config.tree import MapNode, Report

    report = Report(path or "overrides")
    root = MapNode(Place(report.path))
    if path is not None:
        root = _read_file(path, report, os.environ if environ is None else environ)
        _require_version(root, report)

    return _finish(root, overrides or {}, report, os.path.dirname(path or ""))


def config_from_dict(
    data: Mapping[str, object], overrides: Mapping[str, object] | None = None
) -> Config:
    """Make a configuration of Python values shaped as the file is.

    ``version`` may be left out, and ``${NAME}`` is left as it is.

    Raises:
        ConfigProblems: with the dotted key of everything that cannot be used.

    """
    from broker.config.tree import MapNode, Report, tree_from_plain

    report = Report("config")
    root = tree_from_plain(dict(data), report)
    if not isinstance(root, MapNode):
        raise ConfigProblems(report.problems)

    return _finish(root, overrides or {}, report, "")


def _read_file(path: str, report: Report, environ: Mapping[str, str]) -> MapNode:
    from broker.config.tree import MapNode, Scalar, found
    from broker.config.yaml_text import TEXT_BYTES_MAX, tree_from_yaml

    raw = _bytes_of(path, TEXT_BYTES_MAX)
    root = tree_from_yaml(raw, report, environ)
    if root is None or (isinstance(root, Scalar) and root.value is None):
        return MapNode(Place(path, 1, 1))

    if not isinstance(root, MapNode):
        shown = found(root, is_shown=False)
        message = f"expected a mapping that begins with 'version: 1', got {shown}"
        problem = Problem(*root.place, "", message)
        raise ConfigProblems([*report.problems, problem])

    return root


def _bytes_of(path: str, bytes_max: int) -> bytes:
    try:
        with open(path, "rb") as file:
            raw = file.read(bytes_max + 1)
    except IsADirectoryError:
        raise ConfigProblems(
            [Problem(path, 0, 0, "", "expected a file, got a directory")]
        ) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        message = f"cannot be read: {(why or str(error)).lower()}"
        raise ConfigProblems([Problem(path, 0, 0, "", message)]) from None

    if len(raw) > bytes_max:
        message = f"the file has more than {bytes_max} bytes - is it the right one?"
        raise ConfigProblems([Problem(path, 0, 0, "", message)])

    return raw


def _require_version(root: MapNode, report: Report) -> None:
    if "version" not in root.entries:
        place = Place(report.path, 1, 1)
        report.add(place, ("version",), "the key is missing - begin the file with 'version: 1'")


def _finish(
    root: MapNode, overrides: Mapping[str, object], report: Report, directory: str
) -> Config:
    from broker.config.checks import check, grant_defaults
    from broker.config.fields import ROOT
    from broker.config.tree import apply_override

    for key, value in overrides.items():
        apply_override(root, key, value, report)

    config = _with_password_files(ROOT.read(root, (), report), report, directory)
    config = _with_data_directory(grant_defaults(config, report), report, directory)
    config = _with_log_file(config, report, directory)
    if config.tls:
        config = _with_tls_files(config, report, directory)

    check(config, report)
    if report.problems:
        raise ConfigProblems(sorted(report.problems, key=_position))

    origin = Origin(report.path, report.places)
    return config._replace(warnings=tuple(report.warnings), origin=origin)


def _with_password_files(config: Config, report: Report, directory: str) -> Config:
    users = []
    for index, user in enumerate(config.users):
        if user.password_file is not None and user.password is None:
            keys = ("users", str(index), "password_file")
            users.append(_with_password_file(user, keys, report, directory))
        else:
            users.append(user)

    return config._replace(users=tuple(users))


def _with_password_file(user: UserConfig, keys: Keys, report: Report, directory: str) -> UserConfig:
    secret = _secret_in(user.password_file or "", keys, report, directory)
    return user if secret is None else user._replace(password=secret)


def _secret_in(path: str, keys: Keys, report: Report, directory: str) -> Secret | None:
    """Read a file that holds a secret; None when that is a problem."""
    path = os.path.join(directory, os.path.expanduser(path))
    try:
        raw = _bytes_of(path, _PASSWORD_FILE_BYTES_MAX)
        text = raw.decode("utf-8")
    except ConfigProblems as error:
        report.add_at(keys, f"{path!r} {error.problems[0].message}")
        return None
    except UnicodeDecodeError:
        report.add_at(keys, f"{path!r} is not UTF-8")
        return None

    return Secret(text.rstrip("\r\n"))


def _with_tls_files(config: Config, report: Report, directory: str) -> Config:
    from broker.config.tls_checks import with_absolute_files

    profiles = []
    for profile in config.tls:
        at: Keys = ("tls", profile.name)
        placed = with_absolute_files(profile, directory)
        own = _with_key_password(placed.credentials, at, report, directory)
        sni = tuple(
            (name, _with_key_password(one, (*at, "sni", name), report, directory))
            for name, one in placed.sni
        )
        profiles.append(placed._replace(credentials=own, sni=sni))

    return config._replace(tls=tuple(profiles))


def _with_key_password(
    credentials: TLSCredentials, at: Keys, report: Report, directory: str
) -> TLSCredentials:
    if credentials.key_password_file is None:
        return credentials

    keys = (*at, "key_password_file")
    if credentials.key_password is not None:
        report.add_at(keys, "key_password is there as well - keep one: a key has one password")
        return credentials

    secret = _secret_in(credentials.key_password_file, keys, report, directory)
    return credentials._replace(key_password=secret)


def _with_data_directory(config: Config, report: Report, directory: str) -> Config:
    """What the file says starts at the file; what the command line says, where we are."""
    data_dir = config.storage.data_dir
    place = report.places.get(("storage", "data_dir"))
    if not data_dir or place is None or not place.line:
        return config

    path = os.path.join(directory, data_dir)
    return config._replace(storage=config.storage._replace(data_dir=path))


def _with_log_file(config: Config, report: Report, directory: str) -> Config:
    path = config.log.file.path
    place = report.places.get(("log", "file", "path"))
    if not path or place is None or not place.line:
        return config

    file = config.log.file._replace(path=os.path.join(directory, path))
    return config._replace(log=config.log._replace(file=file))


def _position(problem: Problem) -> tuple[int, int]:
    return problem.line, problem.column
