"""All scenarios, by section of the semantics."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from interop.compare.session import Session

__all__ = ["SCENARIOS", "Scenario", "add", "scenario"]


class Scenario(NamedTuple):
    """A script of AMQP methods."""

    name: str
    """Section, slash, what happens."""

    rules: str
    """The rules whose effect can be seen in it."""

    play: Callable[[Session], None]

    is_slow: bool
    """Whether it waits for time to pass, so that it is better run beside others."""

    is_administered: bool = False
    """Whether it needs an administration, and not AMQP alone."""

    is_alone: bool = False
    """Whether the administration changes the whole broker, so that nothing else may run."""

    @property
    def section(self) -> str:
        return self.name.partition("/")[0]


SCENARIOS: dict[str, Scenario] = {}


def add(
    name: str,
    rules: str,
    play: Callable[[Session], None],
    *,
    is_slow: bool = False,
    is_administered: bool = False,
    is_alone: bool = False,
) -> None:
    """Add a scenario."""
    if name in SCENARIOS:
        raise ValueError(f"two scenarios {name}")

    SCENARIOS[name] = Scenario(name, rules, play, is_slow, is_administered or is_alone, is_alone)


def scenario(
    name: str,
    rules: str,
    *,
    is_slow: bool = False,
    is_administered: bool = False,
    is_alone: bool = False,
) -> Callable[[Callable[[Session], None]], Callable[[Session], None]]:
    """Add the function as a scenario."""

    def register(play: Callable[[Session], None]) -> Callable[[Session], None]:
        add(
            name,
            rules,
            play,
            is_slow=is_slow,
            is_administered=is_administered,
            is_alone=is_alone,
        )
        return play

    return register
