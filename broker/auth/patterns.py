"""Regular expressions that cannot run away (auth layer; rules PM-02, PM-20, PO-02).

Patterns come from administrators and names from anybody, and Python's engine backtracks: on a name
made for it, ``^(a+)+$`` takes it longer than the universe is old. So each pattern is taken apart
when it is made, and the ways are counted in which Python's engine could try it on a name. Where
they are few, which they are for nearly all patterns on nearly all names, it does the search. Where
they could be many, a machine does that looks at no place of the name twice in the same state: it
takes a hundred times longer than a quick search, and never longer than that.

Invariant: a search ends within ``STEPS_MAX`` steps or ``WAYS_MAX`` ways, whatever the pattern and
the name; and it says what Python's engine would say.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import Final, NamedTuple

from broker.auth.pattern_tree import (
    Alternatives,
    Edge,
    Letter,
    Look,
    Node,
    Repeat,
    Sequence,
    Unsupported,
    parse,
    width_of,
)

__all__ = [
    "PATTERN_LENGTH_MAX",
    "STEPS_MAX",
    "WAYS_MAX",
    "KnowingPattern",
    "Pattern",
    "PatternError",
    "knowing_pattern",
]

PATTERN_LENGTH_MAX: Final = 4096
"""Characters of one pattern: far above any real one, and quick to compile."""

WAYS_MAX: Final = 100_000
"""Ways in which Python's engine may try a pattern on a name: a millisecond or two. One ``.*``
anywhere in a name of 255 characters has 65,536."""

STEPS_MAX: Final = 250_000
"""Steps of one search with the slow machine, an eighth of a second: the largest program at nearly
every place of a name of 255 characters. What would take more, as what looks ahead at every place
of the name again and again, matches nothing: it gives no right."""

PROGRAM_MAX: Final = 1_000
"""Instructions that a pattern may become for the slow machine; ``x{500}`` is 500."""

NODES_MAX: Final = 10_000
"""Parts that are looked at for that, those that are repeated again for each time, in all that looks
around as well: some ten milliseconds."""

VISITED_SHIFT: Final = 10
"""To clear a kilobyte for what was visited costs about as much as a step."""

NAME_CHARACTERS_MAX: Final = 255
"""Of the names that patterns are for; longer ones are searched as well."""

VERDICTS_MAX: Final = 20_000
"""Names of which a pattern knows whether it is found in them; some two megabytes."""

KNOWING_MAX: Final = 32
"""Patterns that are remembered with what they know."""

ENDLESS: Final = float("inf")
LETTER, SPLIT, JUMP, EDGE, LOOK, FOUND = range(6)


class PatternError(ValueError):
    """A pattern that cannot be used.

    Attributes:
        message: what is wrong.
        position: the character where it is, if that is known.

    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class Pattern:
    """A pattern, ready to be searched for.

    Args:
        text: a regular expression as Python reads it, without references back.
        ignores_case: whether upper and lower case are the same.

    Raises:
        PatternError: it is none, or it could not be searched for in bounded time.

    """

    __slots__ = ("_machine", "_quick_up_to", "_search", "text")

    def __init__(self, text: str, *, ignores_case: bool = False) -> None:
        self.text: Final = text
        flags = re.IGNORECASE if ignores_case else re.NOFLAG
        self._search: Final = _compiled(text, flags).search
        try:
            tree = parse(text, flags)
        except Unsupported as problem:
            raise PatternError(str(problem), problem.position) from None
        except RecursionError:
            raise PatternError("it is nested too deeply") from None

        self._quick_up_to: Final = _quick_up_to(tree)
        self._machine: _Machine | None = None
        if self._quick_up_to != ENDLESS:
            self._machine = _machine_of(tree, self._quick_up_to)

    def is_quick(self, name: str | None = None) -> bool:
        """Whether a name is searched in a millisecond or two; without one, whether any is."""
        if self._machine is None:
            return True

        return name is not None and len(name) <= self._quick_up_to

    def matches(self, name: str) -> bool:
        """Whether it is found anywhere in a name."""
        if len(name) <= self._quick_up_to or self._machine is None:
            return self._search(name) is not None

        return self._machine.finds(name)


class KnowingPattern(Pattern):
    """One that is searched for in the same names again and again: what took long it knows."""

    __slots__ = ("_verdicts",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._verdicts: dict[str, bool] = {}

    def is_quick(self, name: str | None = None) -> bool:
        """The same; a name that it knows is."""
        return super().is_quick(name) or name in self._verdicts

    def matches(self, name: str) -> bool:
        """Whether it is found anywhere in a name."""
        known = self._verdicts.get(name)
        if known is not None:
            return known

        verdict = super().matches(name)
        if not super().is_quick(name):
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()

            self._verdicts[name] = verdict

        return verdict


@lru_cache(maxsize=KNOWING_MAX)
def knowing_pattern(text: str) -> KnowingPattern:
    """The same for the same text, so that one that is made again knows what it knew.

    Raises:
        PatternError: see :class:`Pattern`.

    """
    return KnowingPattern(text)


def _compiled(text: str, flags: re.RegexFlag) -> re.Pattern[str]:
    if len(text) > PATTERN_LENGTH_MAX:
        raise PatternError(
            f"a pattern may have {PATTERN_LENGTH_MAX} characters, this has {len(text)}"
        )

    try:
        with warnings.catch_warnings():
            # Python warns of what a later one may read otherwise, and writes that where it likes.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(text, flags)
    except FutureWarning as problem:
        raise PatternError(f"{str(problem).lower()}: write \\[ for a bracket in a set") from None
    except re.error as error:
        raise PatternError(error.msg, error.pos) from None
    except (RecursionError, OverflowError):
        raise PatternError("the pattern is nested too deeply or counts too far") from None


# -- how many ways there are


def _quick_up_to(tree: Node) -> float:
    """Up to which length of a name Python's engine has few ways to try."""
    if _tries(tree, 4 * NAME_CHARACTERS_MAX) <= WAYS_MAX:
        return ENDLESS

    low, high = -1, 4 * NAME_CHARACTERS_MAX
    while high - low > 1:
        middle = (low + high) // 2
        if _tries(tree, middle) <= WAYS_MAX:
            low = middle
        else:
            high = middle

    return low


def _tries(tree: Node, length: int) -> float:
    begins = 1 if _is_anchored(tree) else length + 1
    return begins * _ways(tree, length)


def _is_anchored(node: Node) -> bool:
    if isinstance(node, Edge):
        return node.is_begin

    if isinstance(node, Sequence):
        return bool(node.parts) and _is_anchored(node.parts[0])

    if isinstance(node, Alternatives):
        return all(_is_anchored(choice) for choice in node.choices)

    return False


def _ways(node: Node, length: int) -> float:
    if isinstance(node, Sequence):
        ways = 1.0
        for part in node.parts:
            ways *= _ways(part, length)

        return ways

    if isinstance(node, Alternatives):
        return sum(_ways(choice, length) for choice in node.choices)

    if isinstance(node, Look):
        return _ways(node.body, length) + 1

    if isinstance(node, Repeat):
        return _ways_to_repeat(node, length)

    return 1


def _ways_to_repeat(node: Repeat, length: int) -> float:
    most = length if node.most is None else min(node.most, length)
    counts = max(most - node.least, 0) + 1
    ways = _ways(node.body, length)
    if ways == 1:
        # Nothing to choose but when to stop; what may be empty never stops.
        return counts if node.most is not None or width_of(node.body) != 0 else ENDLESS

    if node.most is None or most > 64:
        return ENDLESS

    in_all = 1.0
    for _ in range(most):
        # Multiplied out, a few nested repeats are more than a float can hold.
        in_all = min(in_all * ways, 1e18)

    return counts * in_all


# -- the machine


class _Step(NamedTuple):
    """One instruction; which of the fields count depends on it."""

    kind: int
    onward: int = 0
    other: int = 0
    letter: Letter | None = None
    edge: Edge | None = None
    look: _Sight | None = None


class _Sight(NamedTuple):
    """What has to be seen, or must not, before or behind a place."""

    machine: _Machine
    is_wanted: bool
    behind: int | None
    """How far back it begins; None where it looks ahead."""


class _Budget:
    """Steps that are left of a search."""

    __slots__ = ("left", "seen")

    def __init__(self) -> None:
        self.left = STEPS_MAX
        self.seen: dict[tuple[int, int], bool] = {}


class _Exhausted(Exception):
    """The steps are used up."""


class _Machine:
    """A program for one pattern, or for one part that looks around."""

    __slots__ = ("_is_anchored", "_steps")

    def __init__(self, steps: list[_Step], *, is_anchored: bool) -> None:
        self._steps = steps
        self._is_anchored = is_anchored

    def finds(self, name: str) -> bool:
        """Whether the pattern is anywhere in a name."""
        last = 0 if self._is_anchored else len(name)
        try:
            return self._runs(name, range(last + 1), None, _Budget())
        except _Exhausted:
            return False

    def _runs(self, name: str, begins: range, end: int | None, budget: _Budget) -> bool:
        """Whether it matches from one of these places; up to a certain one, if that is given."""
        steps = self._steps
        size = len(name)
        # What was come to before is never tried again: it failed, or is being tried.
        visited = bytearray(len(steps) * (size + 1))
        budget.left -= len(visited) >> VISITED_SHIFT
        for begin in begins:
            waiting = [(0, begin)]
            while waiting:
                at, place = waiting.pop()
                mark = at * (size + 1) + place
                if visited[mark]:
                    continue

                visited[mark] = 1
                budget.left -= 1
                if budget.left < 0:
                    raise _Exhausted

                step = steps[at]
                if step.kind == FOUND:
                    if end is None or place == end:
                        return True
                elif step.kind == SPLIT:
                    waiting.append((step.other, place))
                    waiting.append((step.onward, place))
                elif _passes(step, name, place, budget):
                    waiting.append((step.onward, place + (step.kind == LETTER)))

        return False

    def sees(self, sight: _Sight, name: str, place: int, budget: _Budget) -> bool:
        """Whether what this is the machine of is seen from a place."""
        known = budget.seen.get((id(self), place))
        if known is None:
            begin = place if sight.behind is None else place - sight.behind
            end = None if sight.behind is None else place
            known = begin >= 0 and self._runs(name, range(begin, begin + 1), end, budget)
            budget.seen[id(self), place] = known

        return known is sight.is_wanted


def _passes(step: _Step, name: str, place: int, budget: _Budget) -> bool:
    if step.kind == LETTER:
        letter = step.letter
        return place < len(name) and letter is not None and letter.is_met_by(name[place])

    if step.kind == EDGE:
        return step.edge is not None and step.edge.is_at(name, place)

    sight = step.look
    return sight is None or sight.machine.sees(sight, name, place, budget)


def _machine_of(tree: Node, quick_up_to: float) -> _Machine | None:
    try:
        return _assemble(tree)
    except OverflowError:
        if quick_up_to >= NAME_CHARACTERS_MAX:
            return None

        raise PatternError("it has too many parts that could match in too many ways") from None


def _assemble(tree: Node) -> _Machine:
    return _Assembly().machine_of(tree)


class _Assembly:
    """Makes the machines of one pattern: its own, and one for each part that looks around.

    Such a part has one machine however often it is repeated: where it stands changes nothing.

    """

    __slots__ = ("_count", "_looks")

    def __init__(self) -> None:
        self._count = 0
        self._looks: dict[int, _Machine] = {}

    def machine_of(self, tree: Node) -> _Machine:
        """The machine for a whole pattern, or for such a part.

        Raises:
            OverflowError: all of them together would be too large.

        """
        steps: list[_Step] = []
        self._append(steps, tree)
        steps.append(_Step(FOUND))
        return _Machine(steps, is_anchored=_is_anchored(tree))

    def _append(self, steps: list[_Step], node: Node) -> None:
        """Add what matches a node, and then goes on to the step behind it."""
        self._count += 1
        if self._count > NODES_MAX or len(steps) > PROGRAM_MAX:
            raise OverflowError

        onward = len(steps) + 1
        if isinstance(node, Letter):
            steps.append(_Step(LETTER, onward, letter=node))
        elif isinstance(node, Edge):
            steps.append(_Step(EDGE, onward, edge=node))
        elif isinstance(node, Sequence):
            for part in node.parts:
                self._append(steps, part)
        elif isinstance(node, Alternatives):
            self._append_choices(steps, node.choices)
        elif isinstance(node, Look):
            steps.append(_Step(LOOK, onward, look=self._sight_of(node)))
        elif isinstance(node, Repeat):
            self._append_repeat(steps, node)

    def _sight_of(self, node: Look) -> _Sight:
        machine = self._looks.get(id(node))
        if machine is None:
            machine = self.machine_of(node.body)
            self._looks[id(node)] = machine

        return _Sight(machine, node.is_wanted, node.behind)

    def _append_choices(self, steps: list[_Step], choices: tuple[Node, ...]) -> None:
        ends: list[int] = []
        for choice in choices[:-1]:
            split = len(steps)
            steps.append(_Step(SPLIT))
            self._append(steps, choice)
            ends.append(len(steps))
            steps.append(_Step(JUMP))
            steps[split] = _Step(SPLIT, split + 1, len(steps))

        self._append(steps, choices[-1])
        for end in ends:
            steps[end] = _Step(JUMP, len(steps))

    def _append_repeat(self, steps: list[_Step], node: Repeat) -> None:
        for _ in range(node.least):
            self._append(steps, node.body)

        if node.most is None:
            split = len(steps)
            steps.append(_Step(SPLIT))
            self._append(steps, node.body)
            steps.append(_Step(JUMP, split))
            steps[split] = _Step(SPLIT, split + 1, len(steps))
            return

        splits: list[int] = []
        for _ in range(node.most - node.least):
            splits.append(len(steps))
            steps.append(_Step(SPLIT))
            self._append(steps, node.body)

        for split in splits:
            steps[split] = _Step(SPLIT, split + 1, len(steps))
