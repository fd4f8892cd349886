"""The command line of ctl: options, words, help, completion, exit statuses (cli layer).

Options may stand before the verb or behind it, as with rabbitmqctl. What goes wrong on purpose is
told on standard error, with the exit status of its kind.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from click.shell_completion import CompletionItem, get_completion_class

from broker.cli.ctl.faults import EXIT_OK, EXIT_USAGE, CtlError, WrongUsage
from broker.cli.ctl.help import nearest, overview_text, verb_text
from broker.cli.ctl.places import Wishes, find_broker
from broker.cli.ctl.printing import FORMATS, Printer
from broker.cli.ctl.table import VERBS
from broker.cli.ctl.terms import compact_json, printable
from broker.cli.ctl.verb import Option, Run, Verb, Wanted
from broker.cli.numbers import Seconds, Whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.cli.ctl.transport import Requester

__all__ = ["ctl", "run_as_rabbitmqctl"]

TIMEOUT_S: Final = 60.0
HELP_NAMES: Final = ["-h", "-?", "--help"]
SHELLS: Final = ("bash", "zsh", "fish")
VHOST: Final = "/"

General = dict[str, Any]


def _general_options(taken: Sequence[str] = ()) -> list[click.Parameter]:
    """Options that all verbs have, but for those that a verb has of its own."""
    options = [
        click.Option(["-n", "--node"], metavar="NODE"),
        click.Option(["-p", "--vhost"], metavar="VHOST"),
        click.Option(["-q", "--quiet"], is_flag=True),
        click.Option(["-s", "--silent"], is_flag=True),
        click.Option(["-t", "--timeout"], type=Seconds(), metavar="SECONDS"),
        click.Option(["-l", "--longnames"], is_flag=True),
        click.Option(["--formatter", "--format"], type=click.Choice(FORMATS)),
        click.Option(["--no-table-headers"], is_flag=True),
        click.Option(["--url"], metavar="URL"),
        click.Option(["--data-dir"], metavar="DIR"),
        click.Option(["--user"], metavar="USER"),
        click.Option(["--password"], metavar="PASSWORD"),
        click.Option(["--password-file"], metavar="FILE"),
        click.Option(["--ca", "--cacert"], metavar="FILE"),
        click.Option(["--cert"], metavar="FILE"),
        click.Option(["--key"], metavar="FILE"),
        click.Option(["--insecure"], is_flag=True),
    ]
    return [one for one in options if not set(one.opts) & set(taken)]


def _own_option(option: Option) -> click.Option:
    if not option.value:
        return click.Option([option.name], is_flag=True)

    kind: click.Choice[str] | Whole | None = None
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.number is not None:
        kind = Whole(*option.number)

    return click.Option([option.name], type=kind, default=option.default)


class VerbCommand(click.Command):
    """One verb, as click sees it."""

    def __init__(self, verb: Verb) -> None:
        own = [_own_option(option) for option in verb.options]
        words = click.Argument(
            ["words"], nargs=-1, type=click.UNPROCESSED, shell_complete=self._complete
        )
        super().__init__(
            verb.name,
            callback=self._start,
            params=[*own, *_general_options([one.name for one in verb.options]), words],
            short_help=verb.summary,
            context_settings={"help_option_names": HELP_NAMES},
        )
        self.verb = verb

    def get_help(self, ctx: click.Context) -> str:
        return verb_text(self.verb, _program_of(ctx))

    def get_usage(self, ctx: click.Context) -> str:
        return f"{_program_of(ctx)} {self.verb.usage}"

    def _complete(
        self, _ctx: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.verb.columns if name.startswith(incomplete)]

    def _start(self, words: tuple[str, ...], **options: Any) -> None:
        ctx = click.get_current_context()
        before = ctx.parent.params if ctx.parent is not None else {}
        own = {one.key for one in self.verb.options}
        general: General = {
            name: (None if name in own else options.get(name)) or value
            for name, value in before.items()
        }
        own_options = {name: value for name, value in options.items() if name in own}
        named, more = _name_words(self.verb, words)
        timeout_s = general["timeout"]
        shown = {"timeout": f"{timeout_s or TIMEOUT_S:.1f}", "timeout_s": timeout_s}
        wanted = Wanted(named, more, {**own_options, **shown}, general["vhost"] or VHOST)
        run = Run(self.verb, wanted, _client_of(general), _printer_of(general))
        run.node_given = general["node"] or ""
        run_verb(run)


def run_verb(run: Run) -> None:
    """Say what is done, do it, and show the result."""
    try:
        run.check()
        if not run.printer.is_hushed:
            banner = run.banner
            if banner:
                run.printer.say(banner)

        run.printer.show(run.verb.run(run))
    except CtlError as fault:
        if run.printer.form != "json" or isinstance(fault, WrongUsage):
            raise

        facts = {"message": fault.text, "result": "error"}
        _tell(compact_json(facts))
        raise click.exceptions.Exit(fault.status) from None
    finally:
        run.client.close()


def _name_words(verb: Verb, words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Give the words their names; those that repeat are apart."""
    names = verb.word_names
    if verb.may_repeat:
        names = names[:-1]

    if len(words) < verb.needed_count:
        raise WrongUsage("not enough arguments.")

    if len(words) > len(names) and not verb.may_repeat:
        raise WrongUsage("too many arguments.")

    return dict(zip(names, words, strict=False)), list(words[len(names) :])


def _client_of(general: General) -> Requester:
    wishes = Wishes(**{name: general[name] for name in Wishes._fields})
    timeout_s = general["timeout"]
    return find_broker(wishes, os.environ, timeout_s=timeout_s or TIMEOUT_S)


def _printer_of(general: General) -> Printer:
    is_silent = general["silent"]
    return Printer(
        general["formatter"] or "table",
        is_quiet=general["quiet"] or is_silent,
        has_headers=not (is_silent or general["no_table_headers"]),
    )


# -- the group


class CtlGroup(click.Group):
    """All verbs, and two that are about the command line itself."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*VERBS, *self.commands])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = VERBS.get(cmd_name)
        return super().get_command(ctx, cmd_name) if verb is None else VerbCommand(verb)

    def get_help(self, ctx: click.Context) -> str:
        return overview_text(_program_of(ctx))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            _refuse_verb(name, _program_of(ctx))

        return super().resolve_command(ctx, args)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as fault:
            _end_usage(fault)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as fault:
            _end_usage(fault)
        except WrongUsage as fault:
            _tell(f"Error (argument validation): {fault.text}")
            _tell_usage(ctx)
            raise click.exceptions.Exit(fault.status) from None
        except CtlError as fault:
            _tell(f"Error: {fault.text}")
            raise click.exceptions.Exit(fault.status) from None


def _end_usage(fault: click.UsageError) -> NoReturn:
    _tell(f"Error (argument validation): {fault.format_message()}")
    if fault.ctx is not None:
        _tell(f"\nUsage\n\n{fault.ctx.get_usage().removeprefix('Usage: ')}")

    raise click.exceptions.Exit(EXIT_USAGE) from None


def _tell_usage(ctx: click.Context) -> None:
    verb = VERBS.get(ctx.invoked_subcommand or "")
    if verb is not None:
        _tell(f"\nUsage\n\n{_program_of(ctx)} {verb.usage}")


def _refuse_verb(name: str, program: str) -> NoReturn:
    _tell(f"Command '{name}' not found.")
    found = nearest(name, VERBS)
    if found:
        _tell(f"Did you mean '{found}'?")
    else:
        _tell(f"See '{program} help' for the commands that there are.")

    raise click.exceptions.Exit(EXIT_USAGE)


def _tell(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"{printable(text)}\n")


def _program_of(ctx: click.Context) -> str:
    """What was typed in front of the verb."""
    while ctx.parent is not None and not isinstance(ctx.command, CtlGroup):
        ctx = ctx.parent

    return ctx.command_path


@click.group(
    cls=CtlGroup,
    params=_general_options(),
    invoke_without_command=True,
    context_settings={"help_option_names": HELP_NAMES},
)
@click.pass_context
def ctl(ctx: click.Context, /, **_general: object) -> None:
    """Look after a running broker, with rabbitmqctl's verbs.

    It is reached over the socket in its data directory, or by HTTP.
    """
    if ctx.invoked_subcommand is None:
        _tell(ctx.get_help())
        ctx.exit(EXIT_USAGE)


def _complete_verb(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [CompletionItem(name) for name in VERBS if name.startswith(incomplete)]


@ctl.command("help", add_help_option=False)
@click.argument("verb", required=False, shell_complete=_complete_verb)
@click.pass_context
def show_help(ctx: click.Context, verb: str | None) -> None:
    """Displays usage information for a command."""
    program = _program_of(ctx)
    if verb is None:
        click.echo(overview_text(program))
        return

    found = VERBS.get(verb)
    if found is None:
        _refuse_verb(verb, program)

    click.echo(verb_text(found, program))


@ctl.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Prints what makes a shell complete verbs and columns."""
    root = ctx.find_root()
    program = root.info_name or "leveret"
    variable = f"_{program.upper().replace('-', '_').replace('.', '_')}_COMPLETE"
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root.command, {}, program, variable).source())


@ctl.command("version")
@click.pass_context
def version(ctx: click.Context) -> None:
    """Displays CLI tools version."""
    from broker import __version__
    from broker.core.settings import COMPATIBLE_VERSION

    # Scripts written for rabbitmqctl go by its version.
    is_stand_in = ctx.find_root().command is ctl
    click.echo(COMPATIBLE_VERSION if is_stand_in else __version__)


def run_as_rabbitmqctl() -> None:
    """The command under another name: ``leveret-rabbitmqctl``, or ``rabbitmqctl``."""
    sys.exit(ctl.main(prog_name=os.path.basename(sys.argv[0]), standalone_mode=True) or EXIT_OK)
