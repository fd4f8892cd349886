"""What an administrator says of a virtual host besides its name."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["NO_METADATA", "VHostMetadata"]


class VHostMetadata(NamedTuple):
    """What is said of a virtual host.

    Attributes:
        description: for people.
        tags: for people and programs.
        default_queue_type: the type of queues whose declaration names none, if they can be of that
            type; empty for classic.
        is_protected: it cannot be deleted until this is taken back.

    """

    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    is_protected: bool = False


NO_METADATA: Final = VHostMetadata()
