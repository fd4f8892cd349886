"""Users with rights of their own, for scenarios: people come and go with the run."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.administration import Rights, TopicRights, UserSetting

if TYPE_CHECKING:
    from interop.compare.client import Channel, Link
    from interop.compare.session import Session

__all__ = ["ALL", "NONE", "Bob", "exactly", "new_vhost", "open_as"]

ALL: Final = Rights(".*", ".*", ".*")
NONE: Final = Rights()


def exactly(*names: str) -> str:
    """A pattern that these names match, and no others."""
    return f"^({'|'.join(re.escape(name) for name in names)})$"


def open_as(
    session: Session,
    user: str,
    vhost: str = "/",
    *,
    password: str = "",
    is_from_afar: bool = False,
) -> Link:
    """Log in as a user and open a virtual host; only what comes after the login is written down."""
    link = session.raw_link(is_from_afar=is_from_afar)
    link.is_recording = False
    link.start()
    link.log_in(user, password or user)
    link.is_recording = True
    if link.is_open and not link.is_ending:
        link.tune_and_open(vhost)
    else:
        link.record(0, "(not logged in)")

    if link.is_closed_by_broker:
        link.await_socket_end()

    return link


def new_vhost(session: Session, suffix: str = "v") -> str:
    """Make a virtual host for this run, in which guest may do everything; returns its name."""
    name = session.name(suffix)
    administration = session.administration
    session.administer(
        "virtual host",
        partial(administration.add_vhost, name),
        undo=partial(administration.delete_vhost, name),
    )
    return name


class Bob:
    """A user of the run, without any rights at first.

    Args:
        session: the run; guest's connection is opened first, so that the scene can be set on it.
        suffix: of the name.
        tags: of the user.

    """

    def __init__(self, session: Session, suffix: str = "bob", tags: tuple[str, ...] = ()) -> None:
        if not session.links:
            session.connect()

        self._session = session
        self._links: list[Link] = []
        self.name = session.name(suffix)
        administration = session.administration
        session.administer(
            "user",
            partial(administration.put_user, UserSetting(self.name, tags=tags)),
            undo=partial(administration.delete_user, self.name),
        )

    def may(self, rights: Rights, vhost: str = "/") -> None:
        """Give these rights in place of those before."""
        administration = self._session.administration
        step = partial(administration.set_rights, self.name, rights, vhost=vhost)
        self._session.administer("rights", step)

    def may_use(self, exchange: str, *, write: str = "", read: str = "", vhost: str = "/") -> None:
        """Allow these keys with a topic exchange."""
        rights = TopicRights(exchange, write, read)
        administration = self._session.administration
        step = partial(administration.set_topic_rights, self.name, rights, vhost=vhost)
        self._session.administer("topic rights", step)

    def has_tags(self, *tags: str) -> None:
        """Give other tags."""
        step = partial(self._session.administration.put_user, UserSetting(self.name, tags=tags))
        self._session.administer("tags", step)

    def limited(self, limit: str, value: int) -> None:
        """Set a limit."""
        step = partial(self._session.administration.limit_user, self.name, limit, value)
        self._session.administer("limit", step)

    def connect(self, vhost: str = "/") -> Link:
        """Open a connection, whose virtual host's answer is written down."""
        return open_as(self._session, self.name, vhost)

    def channel(self) -> Channel:
        """A new channel of the first connection that is still open."""
        for link in self._links:
            if link.is_open and not link.is_ending:
                return link.channel()

        link = self._session.connect(user=self.name)
        self._links.append(link)
        return link.channel()
