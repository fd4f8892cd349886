"""Saying something of a virtual host: a command of administrators.

See :mod:`broker.core.user_commands` for ``by``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.user_commands import tell, vhost_named

if TYPE_CHECKING:
    from broker.core.node import Node
    from broker.core.vhost_metadata import VHostMetadata

__all__ = ["QUEUE_TYPES", "set_vhost_metadata"]

QUEUE_TYPES: Final = ("classic", "quorum", "stream")


def set_vhost_metadata(node: Node, name: str, metadata: VHostMetadata, *, by: str) -> None:
    """Say something else of a virtual host.

    Raises:
        NoSuchVirtualHost: there is no such virtual host.
        ValueError: there is no such type of queue; nothing is changed.

    """
    vhost = vhost_named(node, name)
    queue_type = metadata.default_queue_type
    if queue_type and queue_type not in QUEUE_TYPES:
        raise ValueError(f"{queue_type} is not a valid queue type")

    if metadata == vhost.metadata:
        return

    vhost.metadata = metadata
    tell(node, "vhost.updated", by, name=name, description=metadata.description)
