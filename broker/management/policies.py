"""Policies and operator policies (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.policy import policy_from_plain
from broker.management.auth import ADMINISTRATOR, ANYBODY, POLICYMAKER_IN_VHOST, VHOST
from broker.management.call import answer, created, done
from broker.management.errors import MissingKeys, NotThere
from broker.management.routes import Route
from broker.management.searching import names_in, search_ahead

if TYPE_CHECKING:
    from aiohttp import web

    from broker.core.policy import Policy
    from broker.core.vhost import VirtualHost
    from broker.management.call import Call
    from broker.management.json_text import JSON

__all__ = ["ROUTES", "policies_of", "policy_row"]

REQUIRED: Final = ("pattern", "definition")


def policy_row(vhost: VirtualHost, policy: Policy) -> JSON:
    """A policy, as lists and definitions have it."""
    return {"vhost": vhost.name, "name": policy.name, **policy_value(policy)}


def policy_value(policy: Policy) -> JSON:
    """What a policy says."""
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def policies_of(vhost: VirtualHost, *, is_operator: bool) -> list[Policy]:
    """All of them by name."""
    known = vhost.policies.operator_policies if is_operator else vhost.policies.policies
    return sorted(known, key=lambda policy: policy.name)


def _is_operator(call: Call) -> bool:
    return call.request.path.startswith("/api/operator-policies")


async def list_policies(call: Call) -> web.Response:
    is_operator = _is_operator(call)
    return answer(
        [
            policy_row(vhost, policy)
            for vhost in call.visible_vhosts()
            for policy in policies_of(vhost, is_operator=is_operator)
        ]
    )


def _policy_in_path(call: Call) -> Policy | None:
    for policy in policies_of(call.vhost, is_operator=_is_operator(call)):
        if policy.name == call["policy"]:
            return policy

    return None


async def get_policy(call: Call) -> web.Response:
    policy = _policy_in_path(call)
    if policy is None:
        raise NotThere

    return answer(policy_row(call.vhost, policy))


async def put_policy(call: Call) -> web.Response:
    body = await call.body()
    missing = [key for key in REQUIRED if key not in body]
    if missing:
        raise MissingKeys(missing)

    vhost = call.vhost
    by = call.caller.name
    is_operator = _is_operator(call)
    is_new = _policy_in_path(call) is None
    policy = policy_from_plain(call["policy"], body, is_operator=is_operator)
    await search_ahead(policy.regex, names_in(vhost))
    await call.site.change(lambda: vhost.set_policy(policy, is_operator=is_operator, by=by), vhost)
    return created() if is_new else done()


async def delete_policy(call: Call) -> web.Response:
    if _policy_in_path(call) is None:
        raise NotThere

    vhost = call.vhost
    by = call.caller.name
    is_operator = _is_operator(call)
    name = call["policy"]
    await call.site.change(lambda: vhost.clear_policy(name, is_operator=is_operator, by=by), vhost)
    return done()


def _routes(root: str, access: str) -> tuple[Route, ...]:
    return (
        Route("GET", root, ANYBODY, list_policies),
        Route("GET", f"{root}/:vhost", VHOST, list_policies),
        Route("GET", f"{root}/:vhost/:policy", VHOST, get_policy),
        Route("PUT", f"{root}/:vhost/:policy", access, put_policy),
        Route("DELETE", f"{root}/:vhost/:policy", access, delete_policy),
    )


ROUTES: Final = (
    *_routes("/policies", POLICYMAKER_IN_VHOST),
    *_routes("/operator-policies", ADMINISTRATOR),
)
