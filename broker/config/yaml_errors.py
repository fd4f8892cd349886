"""What a syntax error of YAML most likely means (configuration layer).

The parser says where it could not go on; people need to know which slip brought it there.
Invariant: no text of the file is repeated, it may be a secret.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from broker.config.problems import Problem

if TYPE_CHECKING:
    from yaml import MarkedYAMLError

__all__ = ["explain"]

_LINE_LENGTH_MAX: Final = 1000
"""Characters of a line that are looked at: searching may take their square."""

_KEY_WITHOUT_SPACE: Final = re.compile(r"""\s*(?:-\s+)*([\w.-]+|"[^"]*"|'[^']*'):[^\s]""")
_QUOTE_GOES_ON: Final = re.compile(r""":\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*[^\s#,\]}]""")
_SECOND_COLON: Final = re.compile(r"""^[^"'#]*?:\s+[^"'\s{\[#][^#]*?:(?:\s|$)""")


def explain(error: MarkedYAMLError, path: str, text: str) -> Problem:
    """Turn the parser's complaint into one about the likely slip, at its place."""
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else 0
    column = mark.column + 1 if mark is not None else 0
    problem = str(error.problem or "")
    context = str(error.context or "")
    lines = text.splitlines()
    if "quoted scalar" in context and "end of stream" in problem and error.context_mark:
        line, column = error.context_mark.line + 1, error.context_mark.column + 1
        return Problem(path, line, column, "", "the quote that opens here is never closed")

    source = _Source(lines, line, column)
    if "flow" not in context and not _about_tabs(source):
        # The parser only stumbles in the line after; this points to the slip itself.
        places = ((line, source.line), (source.previous_number, source.previous))
        for number, written in places:
            slip = _KEY_WITHOUT_SPACE.match(written)
            if slip is not None:
                message = "a space is missing after this colon"
                return Problem(path, number, slip.end() - 1, "", message)

    opened = error.context_mark.line + 1 if error.context_mark is not None else 0
    message = (
        _about_tabs(source)
        or _about_tokens(problem, context, source)
        or _about_flow(problem, context, opened)
        or _about_blocks(problem, context, source)
        or f"not valid YAML: {problem}{f' ({context})' if context else ''}"
    )
    return Problem(path, line, column, "", message)


class _Source:
    """The line of the error, the one before it that is not empty, and the character itself."""

    __slots__ = ("before", "character", "line", "previous", "previous_number")

    def __init__(self, lines: list[str], line: int, column: int) -> None:
        self.line = lines[line - 1][:_LINE_LENGTH_MAX] if 0 < line <= len(lines) else ""
        self.character = self.line[column - 1 : column]
        self.before = self.line[: column - 1]
        self.previous = ""
        self.previous_number = 0
        for number in range(min(line - 1, len(lines)), 0, -1):
            candidate = lines[number - 1]
            if candidate.strip() and not candidate.lstrip().startswith("#"):
                self.previous = candidate[:_LINE_LENGTH_MAX]
                self.previous_number = number
                break


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _about_tabs(source: _Source) -> str:
    blank = source.line[: len(source.line) - len(source.line.lstrip())]
    if "\t" in blank or source.character == "\t":
        return "a tab indents this line - YAML is indented with spaces only"

    return ""


def _about_tokens(problem: str, context: str, source: _Source) -> str:
    if "alias" in context or "anchor" in context:
        sign = "*" if "alias" in context else "&"
        return f"a text that begins with {sign} must be quoted: '{sign}...'"

    if "escape" in problem:
        return (
            "in double quotes a backslash begins an escape, and this is none - use single quotes,"
            " also for regular expressions: '^a\\.b'"
        )

    if "cannot start any token" in problem and source.character:
        return f"a text that begins with {source.character} must be quoted"

    if "block scalar" in context:
        return "a text that begins with | or > must be quoted"

    if "directive" in context:
        return "a line that begins with % is a directive of YAML - quote a text that begins with it"

    if "nesting depth" in problem:
        return "nested far too deeply"

    return ""


def _about_flow(problem: str, context: str, opened: int) -> str:
    if "flow node" in context:
        return (
            "a value is missing before this, or a bracket is never closed - quote what contains"
            " a # after a space, it begins a comment"
        )

    if "flow" not in context or "expected ','" not in problem:
        return ""

    bracket = "{" if "mapping" in context else "["
    close = "}" if bracket == "{" else "]"
    return (
        f"inside the {bracket} opened in line {opened} a comma or the closing {close} is missing"
        " before this - inside brackets quote texts that contain , { } [ ], and ${...} as well"
    )


def _about_blocks(problem: str, context: str, source: _Source) -> str:
    if _QUOTE_GOES_ON.search(source.line):
        return (
            "something follows the closing quote - a ' inside '...' is written twice,"
            ' a " inside "..." as \\"'
        )

    if "mapping values are not allowed" in problem:
        return _about_second_colon(source)

    if "'-' indicator" in problem or ("block collection" in context):
        return "here a list goes on as a mapping - begin the line with '- ' or indent it otherwise"

    if "block mapping" in context or "block end" in problem:
        return (
            f"no line above has this line's indentation ({_indent(source.line)})"
            " - indent it like the lines it belongs with"
        )

    if "document start" in problem:
        return "the value before this is complete - a colon and space may be missing in this line"

    return ""


def _about_second_colon(source: _Source) -> str:
    if _SECOND_COLON.match(source.line):
        return "a second ': ' in one line - quote the text that contains the colon"

    if _indent(source.line) > _indent(source.previous):
        return (
            f"this line is indented deeper than line {source.previous_number}, which has its value"
            " already - give both the same indentation"
        )

    return (
        f"a key at a place where none can be - line {source.previous_number} before it may lack"
        " its colon"
    )
