"""Parameters that programs keep at the broker: commands of administrators (rule DE-05).

A parameter belongs to a virtual host and a component, a global one to the node. The components
that mean something to the broker itself, ``operator_policy`` and ``vhost-limits``, are kept where
they take effect and have commands of their own. See :mod:`broker.core.user_commands` for ``by``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.user_commands import tell, vhost_named
from broker.wire.tables import table_from_plain

if TYPE_CHECKING:
    from broker.core.node import Node

__all__ = [
    "COMPONENTS",
    "Parameter",
    "clear_global_parameter",
    "clear_parameter",
    "parameter_named",
    "set_global_parameter",
    "set_parameter",
]

COMPONENTS: Final = ("federation-upstream", "federation-upstream-set", "shovel")
"""What is kept for programs of RabbitMQ's plugins, and has no effect here."""


class Parameter:
    """One parameter of a virtual host.

    Args:
        vhost: the virtual host.
        component: what it is for.
        name: unique for the component.
        value: as JSON has it.

    """

    __slots__ = ("component", "name", "value", "vhost")

    def __init__(self, vhost: str, component: str, name: str, value: object) -> None:
        self.vhost = vhost
        self.component = component
        self.name = name
        self.value = value


def parameter_named(node: Node, vhost: str, component: str, name: str) -> Parameter | None:
    """Find a parameter."""
    return node.parameters.get((vhost, component, name))


def set_parameter(node: Node, parameter: Parameter, *, by: str) -> None:
    """Set a parameter.

    Raises:
        NoSuchVirtualHost: there is no such virtual host.
        ValueError: nobody knows the component; nothing is changed.

    """
    vhost_named(node, parameter.vhost)
    if parameter.component not in COMPONENTS:
        raise ValueError(f"component {parameter.component} not found")

    if not isinstance(parameter.value, dict):
        raise ValueError("the value of a parameter should be an object")

    node.parameters[parameter.vhost, parameter.component, parameter.name] = parameter
    tell(
        node,
        "parameter.set",
        by,
        component=parameter.component,
        name=parameter.name,
        vhost=parameter.vhost,
        value=table_from_plain(_without_nothing(parameter.value)),
    )


def _without_nothing(value: dict[str, object]) -> dict[str, object]:
    """Leave out what a table of arguments has no type for."""
    return {key: item for key, item in value.items() if item is not None}


def clear_parameter(node: Node, vhost: str, component: str, name: str, *, by: str) -> bool:
    """Forget a parameter; False when there is none."""
    if node.parameters.pop((vhost, component, name), None) is None:
        return False

    tell(node, "parameter.cleared", by, component=component, name=name, vhost=vhost)
    return True


def set_global_parameter(node: Node, name: str, value: object, *, by: str) -> None:
    """Set a parameter of the node."""
    node.global_parameters[name] = value
    tell(node, "parameter.set", by, component="global", name=name)


def clear_global_parameter(node: Node, name: str, *, by: str) -> bool:
    """Forget a parameter of the node; False when there is none."""
    if name not in node.global_parameters:
        return False

    del node.global_parameters[name]
    tell(node, "parameter.cleared", by, component="global", name=name)
    return True
