"""Parameters of virtual hosts and of the node (management layer).

Operator policies and the limits of virtual hosts are parameters too in RabbitMQ, and so they are
seen and changed here as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.limit_commands import clear_vhost_limits, limits_of_vhost, set_vhost_limits
from broker.core.parameter_commands import (
    Parameter,
    clear_global_parameter,
    clear_parameter,
    set_global_parameter,
    set_parameter,
)
from broker.core.policy import policy_from_plain
from broker.management.auth import POLICYMAKER, POLICYMAKER_IN_VHOST
from broker.management.call import answer, created, done
from broker.management.errors import BadRequest, NotAuthorised, NotThere
from broker.management.policies import policies_of, policy_value
from broker.management.routes import Route
from broker.management.searching import names_in, search_ahead

if TYPE_CHECKING:
    from aiohttp import web

    from broker.core.node import Node
    from broker.core.policy import Policy
    from broker.core.vhost import VirtualHost
    from broker.management.call import Call
    from broker.management.json_text import JSON

__all__ = ["ROUTES", "apply_parameter", "global_parameter_rows", "parameters_in", "policy_of"]

OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS: Final = "vhost-limits"
LIMITS: Final = "limits"
ADMINISTRATORS_OWN: Final = frozenset({OPERATOR_POLICY, VHOST_LIMITS})
"""Components that a policymaker may not change."""


def parameters_in(node: Node, vhost: VirtualHost) -> list[Parameter]:
    """All parameters of a virtual host, those among them that have commands of their own."""
    found = [
        Parameter(vhost.name, OPERATOR_POLICY, policy.name, policy_value(policy))
        for policy in policies_of(vhost, is_operator=True)
    ]
    limits = limits_of_vhost(vhost)
    if limits:
        found.append(Parameter(vhost.name, VHOST_LIMITS, LIMITS, limits))

    found += [one for one in node.parameters.values() if one.vhost == vhost.name]
    return found


def policy_of(parameter: Parameter) -> Policy | None:
    """The operator policy that a parameter is, if it is one.

    Raises:
        PolicyInvalid: it is not sound.

    """
    value = parameter.value
    if parameter.component != OPERATOR_POLICY or not isinstance(value, dict):
        return None

    return policy_from_plain(parameter.name, value, is_operator=True)


def apply_parameter(
    node: Node, parameter: Parameter, policy: Policy | None = None, *, by: str
) -> None:
    """Set a parameter of any component.

    Args:
        node: where.
        parameter: what.
        policy: what :func:`policy_of` has made of it, and was searched ahead.
        by: who sets it.

    Raises:
        PolicyInvalid, ValueError: it is not sound.
        NoSuchVirtualHost: there is no such virtual host.

    """
    value = parameter.value
    policy = policy or policy_of(parameter)
    if policy is not None:
        node.vhosts[parameter.vhost].set_policy(policy, is_operator=True, by=by)
    elif parameter.component == VHOST_LIMITS and isinstance(value, dict):
        set_vhost_limits(node, parameter.vhost, value, by=by)
    else:
        set_parameter(node, parameter, by=by)


def _row(parameter: Parameter) -> JSON:
    return {
        "value": parameter.value,
        "vhost": parameter.vhost,
        "component": parameter.component,
        "name": parameter.name,
    }


async def list_parameters(call: Call) -> web.Response:
    component = call.parameters.get("component")
    return answer(
        [
            _row(one)
            for vhost in call.visible_vhosts()
            for one in parameters_in(call.node, vhost)
            if component in (None, one.component)
        ]
    )


def _in_path(call: Call) -> Parameter | None:
    for one in parameters_in(call.node, call.vhost):
        if (one.component, one.name) == (call["component"], call["parameter"]):
            return one

    return None


async def get_parameter(call: Call) -> web.Response:
    parameter = _in_path(call)
    if parameter is None:
        raise NotThere

    return answer(_row(parameter))


def _check_rights(call: Call) -> None:
    if call["component"] in ADMINISTRATORS_OWN and not call.caller.is_administrator:
        raise NotAuthorised("Not administrator user")


async def put_parameter(call: Call) -> web.Response:
    body = await call.body("value")
    _check_rights(call)
    is_new = _in_path(call) is None
    vhost = call.vhost
    parameter = Parameter(vhost.name, call["component"], call["parameter"], body["value"])
    node = call.node
    by = call.caller.name
    try:
        policy = policy_of(parameter)
        if policy is not None:
            await search_ahead(policy.regex, names_in(vhost))

        await call.site.change(lambda: apply_parameter(node, parameter, policy, by=by), vhost)
        await call.site.change(_nothing)
    except ValueError as problem:
        raise BadRequest(f"Validation failed\n\n{problem}\n") from None

    return created() if is_new else done()


def _nothing() -> None:
    """What is left is to wait until the node's state is saved."""


async def delete_parameter(call: Call) -> web.Response:
    if _in_path(call) is None:
        raise NotThere

    _check_rights(call)
    vhost = call.vhost
    node = call.node
    component, name, by = call["component"], call["parameter"], call.caller.name

    def clear() -> None:
        if component == OPERATOR_POLICY:
            vhost.clear_policy(name, is_operator=True, by=by)
        elif component == VHOST_LIMITS:
            clear_vhost_limits(node, vhost.name, by=by)
        else:
            clear_parameter(node, vhost.name, component, name, by=by)

    await call.site.change(clear, vhost)
    await call.site.change(_nothing)
    return done()


# -- global ones


def global_parameter_rows(node: Node) -> list[JSON]:
    """All parameters of the node."""
    return [{"name": name, "value": value} for name, value in node.global_parameters.items()]


async def list_global(call: Call) -> web.Response:
    return answer(global_parameter_rows(call.node))


async def get_global(call: Call) -> web.Response:
    name = call["parameter"]
    if name not in call.node.global_parameters:
        raise NotThere

    return answer({"name": name, "value": call.node.global_parameters[name]})


async def put_global(call: Call) -> web.Response:
    value = (await call.body("value"))["value"]
    node = call.node
    name, by = call["parameter"], call.caller.name
    is_new = name not in node.global_parameters
    await call.site.change(lambda: set_global_parameter(node, name, value, by=by))
    return created() if is_new else done()


async def delete_global(call: Call) -> web.Response:
    node = call.node
    name, by = call["parameter"], call.caller.name
    if name not in node.global_parameters:
        raise NotThere

    await call.site.change(lambda: clear_global_parameter(node, name, by=by))
    return done()


ONE: Final = "/parameters/:component/:vhost/:parameter"
GLOBAL: Final = "/global-parameters/:parameter"

ROUTES: Final = (
    Route("GET", "/parameters", POLICYMAKER, list_parameters),
    Route("GET", "/parameters/:component", POLICYMAKER, list_parameters),
    Route("GET", "/parameters/:component/:vhost", POLICYMAKER_IN_VHOST, list_parameters),
    Route("GET", ONE, POLICYMAKER_IN_VHOST, get_parameter),
    Route("PUT", ONE, POLICYMAKER_IN_VHOST, put_parameter),
    Route("DELETE", ONE, POLICYMAKER_IN_VHOST, delete_parameter),
    Route("GET", "/global-parameters", POLICYMAKER, list_global),
    Route("GET", GLOBAL, POLICYMAKER, get_global),
    Route("PUT", GLOBAL, POLICYMAKER, put_global),
    Route("DELETE", GLOBAL, POLICYMAKER, delete_global),
)
