"""All verbs (cli layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.cli.ctl import (
    connections,
    definitions,
    health,
    lifecycle,
    listings,
    messages,
    node,
    permissions,
    policies,
    queues,
    refused,
    settings,
    single,
    users,
    vhosts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.cli.ctl.verb import Verb

__all__ = ["GROUPS", "VERBS"]

FAMILIES: Final = (
    lifecycle,
    node,
    health,
    users,
    permissions,
    vhosts,
    listings,
    queues,
    messages,
    connections,
    policies,
    settings,
    definitions,
    single,
    refused,
)
VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for family in FAMILIES for verb in family.VERBS}
GROUPS: Final = (
    "Nodes",
    "Cluster",
    "Users",
    "Access Control",
    "Virtual hosts",
    "Monitoring, observability and health checks",
    "Queues",
    "Messages",
    "Policies",
    "Parameters",
    "Operations",
    "Configuration and Environment",
    "Definitions",
    "Feature flags",
)
"""In the order in which help has them."""
