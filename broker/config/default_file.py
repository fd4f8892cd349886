"""The default configuration as a file with explanations (configuration layer).

Invariant: made from ``broker.config.fields`` alone; what it sets is exactly the defaults.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from broker.config.fields import ROOT, TLS, USERS, VHOSTS
from broker.config.records import Key, ListOf, NamedMap, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["default_file_text"]

_WIDTH: Final = 100

_HEAD: Final = """\
# yaml-language-server: $schema=leveret.schema.json

## The default configuration of Leveret, with every key there is. A file needs version only: what is
## left out is as it is here. Lines with two # explain; lines with one are examples, remove the #.
##
## Times have a unit (500ms, 30s, 10m, 1h), sizes may (131072, 128KiB, 16MiB, 1GB). ${NAME} and
## ${NAME:-default} are taken from the environment, $${ is a literal ${. Regular expressions go into
## single quotes. Check a file with: leveret config check FILE
"""

_USERS: Final = """\
users:
  - name: guest
    password: guest
    tags: [administrator]
  # - name: app
  #   password_file: /run/secrets/app
  #   tags: []
  #   limits: {max-connections: 100, max-channels: 500}
  # - name: ops
  #   password_hash: "+pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+"
  #   hashing_algorithm: rabbit_password_hashing_sha256
  #   tags: [monitoring]
"""

_TLS: Final = """\
# tls:
#   default:
#     cert: /etc/leveret/tls.crt
#     key: /etc/leveret/tls.key
#     key_password: null
#     key_password_file: null
#     ca: null
#     crl: null
#     verify: none
#     min_version: '1.2'
#     ciphers: null
#     sni: {'*.example.org': {cert: /etc/leveret/example.crt, key: /etc/leveret/example.key}}
"""


def default_file_text() -> str:
    """Render the file."""
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for key in ROOT.keys.values():
        if key.name == USERS.name:
            yield _explain(key, "") + "".join(_explained_keys(USERS)) + _USERS
        elif key.name == TLS.name:
            yield _explain(key, "") + "".join(_explained_keys(TLS)) + _TLS
        elif key.name == VHOSTS.name:
            yield _explain(key, "") + 'vhosts:\n  "/":\n' + "".join(_lines_of(VHOSTS, "    "))
        else:
            yield "".join(_render(key, ""))


def _render(key: Key[object], indent: str) -> Iterator[str]:
    yield _explain(key, indent)
    shape = key.shape
    if key.example:
        yield f"{indent}# {key.name}:\n"
        yield f"{indent}#   {key.example}\n"
    elif key.written:
        yield f"{indent}{key.name}: {key.written}\n"
    elif isinstance(shape, ListOf):
        yield f"{indent}{key.name}:\n"
        yield from _list_item(shape, indent + "  ")
    else:
        yield f"{indent}{key.name}:\n"
        yield from _lines_of(key, indent + "  ")


def _lines_of(key: Key[object], indent: str) -> Iterator[str]:
    shape = key.shape
    if isinstance(shape, NamedMap):
        shape = shape.item

    if isinstance(shape, Record):
        for inner in shape.keys.values():
            yield from _render(inner, indent)


def _list_item(shape: ListOf[object], indent: str) -> Iterator[str]:
    sign = "- "
    if isinstance(shape.item, Record):
        for inner in shape.item.keys.values():
            yield _explain(inner, indent + "  ")
            yield f"{indent}{sign}{inner.name}: {inner.written}\n"
            sign = "  "


def _explained_keys(key: Key[object]) -> Iterable[str]:
    shape = key.shape
    item = shape.item if isinstance(shape, ListOf | NamedMap) else None
    for inner in item.keys.values() if isinstance(item, Record) else ():
        yield _comment(f"{inner.name}: {inner.doc}", "", hanging=True)


def _explain(key: Key[object], indent: str) -> str:
    return _comment(key.doc, indent)


def _comment(text: str, indent: str, *, hanging: bool = False) -> str:
    lines = textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"{indent}## " + ("  " if hanging else ""),
        subsequent_indent=f"{indent}## " + ("    " if hanging else ""),
    )
    return "\n".join(lines) + "\n"
