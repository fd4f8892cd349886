"""The command line of ctl, without a broker: verbs, words, options, help, completion."""

from __future__ import annotations

import json
import sys

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from broker.cli.ctl.command import ctl, run_as_rabbitmqctl
from broker.cli.ctl.faults import EXIT_DATA, EXIT_UNAVAILABLE, EXIT_USAGE, WrongUsage
from broker.cli.ctl.sizes import fraction_of, size_of
from broker.cli.ctl.table import FAMILIES, GROUPS, VERBS
from broker.cli.main import cli
from broker.core.settings import COMPATIBLE_VERSION
from tests.helpers.ctl import Ctl

NOWHERE = Ctl("--url", "http://127.0.0.1:1")

RABBITMQCTL = """
add_user add_vhost authenticate_user await_online_nodes await_startup change_cluster_node_type
change_password check_if_any_deprecated_features_are_used clear_global_parameter
clear_operator_policy clear_parameter clear_password clear_permissions clear_policy
clear_topic_permissions clear_user_limits clear_vhost_limits close_all_connections
close_all_user_connections close_connection cluster_status decode decrypt_conf_value delete_queue
delete_user delete_vhost disable_vhost_deletion_protection enable_feature_flag
enable_vhost_deletion_protection encode encrypt_conf_value environment eval eval_file exec
export_definitions force_boot force_gc force_reset forget_cluster_node hash_password help
import_definitions join_cluster list_bindings list_channels list_ciphers list_connections
list_consumers list_deprecated_features list_exchanges list_feature_flags list_global_parameters
list_hashes list_node_auth_attempt_stats list_operator_policies list_parameters list_permissions
list_policies list_queues list_topic_permissions list_unresponsive_queues list_user_limits
list_user_permissions list_user_topic_permissions list_users list_vhost_limits list_vhosts
node_health_check ping purge_queue rename_cluster_node report reset reset_stats_db restart_vhost
resume_listeners rotate_logs set_cluster_name set_disk_free_limit set_global_parameter set_log_level
set_operator_policy set_parameter set_permissions set_permissions_globally set_policy
set_topic_permissions set_user_limits set_user_tags set_vhost_limits set_vhost_tags
set_vm_memory_high_watermark shutdown start_app status stop stop_app suspend_listeners trace_off
trace_on update_cluster_nodes update_vhost_metadata version wait
activate_free_disk_space_monitoring autocomplete cancel_sync_queue
deactivate_free_disk_space_monitoring force_standalone_khepri_boot
has_reached_target_cluster_size hipe_compile list_channel_interceptors reconcile_vhosts
remove_classic_queue_mirroring_from_policies schema_info set_channel_interceptor_priorities
sync_queue
"""
"""Verbs of rabbitmqctl 3.10 and 4.3."""

DIAGNOSTICS = """
alarms check_alarms check_certificate_expiration check_if_node_is_quorum_critical
check_local_alarms check_port_connectivity check_port_listener check_protocol_listener check_running
check_virtual_hosts is_booting is_running listeners memory_breakdown server_version
certificates check_for_quorum_queues_without_an_elected_leader erlang_version log_location log_tail
check_if_metadata_store_is_initialized check_if_metadata_store_is_initialized_with_data
check_if_new_quorum_queue_replicas_have_finished_initial_sync log_tail_stream maybe_stuck observer
remote_shell runtime_thread_stats
add_member delete_member grow peek quorum_status rebalance shrink transfer_leadership
"""

COLUMNS = {
    "list_queues": """
        arguments auto_delete consumer_capacity consumer_utilisation consumers disk_reads
        disk_writes durable effective_policy_definition exclusive exclusive_consumer_pid
        exclusive_consumer_tag head_message_timestamp leader members memory message_bytes
        message_bytes_persistent message_bytes_ram message_bytes_ready
        message_bytes_unacknowledged messages messages_persistent messages_ram messages_ready
        messages_ready_ram messages_unacknowledged messages_unacknowledged_ram name online
        operator_policy owner_pid pid policy slave_pids state synchronised_slave_pids type""",
    "list_connections": """
        auth_mechanism channel_max channels client_properties connected_at container_id frame_max
        host name peer_cert_issuer peer_cert_serial_number peer_cert_subject peer_cert_validity
        peer_host peer_port pid port protocol recv_cnt recv_oct send_cnt send_oct send_pend ssl
        ssl_cipher ssl_hash ssl_key_exchange ssl_protocol state timeout user vhost""",
    "list_channels": """
        acks_uncommitted confirm connection consumer_count global_prefetch_count
        messages_unacknowledged messages_uncommitted messages_unconfirmed name number pid
        prefetch_count transactional user vhost""",
    "list_consumers": """
        ack_required active activity_status arguments channel_pid consumer_tag prefetch_count
        queue_name""",
    "list_exchanges": "arguments auto_delete durable internal name policy type",
    "list_bindings": """
        arguments destination_kind destination_name routing_key source_kind source_name""",
    "list_vhosts": """
        cluster_state default_queue_type description metadata name protected_from_deletion tags
        tracing""",
}
"""What RabbitMQ 3.10 or 4.3 can show."""

SHOWN = {
    "list_queues": "name messages",
    "list_exchanges": "name type",
    "list_bindings": """
        source_name source_kind destination_name destination_kind routing_key arguments""",
    "list_connections": "user peer_host peer_port state",
    "list_channels": "pid user consumer_count messages_unacknowledged",
    "list_consumers": """
        queue_name channel_pid consumer_tag ack_required prefetch_count active arguments""",
    "list_vhosts": "name",
    "list_feature_flags": "name state",
}
"""What it shows when nobody says what."""


@pytest.mark.parametrize("verb", [*RABBITMQCTL.split(), *DIAGNOSTICS.split()])
def test_there_is_a_verb(verb: str) -> None:
    assert ctl.get_command(click.Context(ctl), verb) is not None


@pytest.mark.parametrize("verb", COLUMNS)
def test_a_list_can_show_what_rabbitmqs_can(verb: str) -> None:
    assert set(COLUMNS[verb].split()) <= set(VERBS[verb].columns)


@pytest.mark.parametrize("verb", SHOWN)
def test_a_list_shows_what_rabbitmqs_does(verb: str) -> None:
    assert list(VERBS[verb].shown) == SHOWN[verb].split()


def test_no_verb_is_there_twice_and_each_has_its_place_in_help() -> None:
    assert sum(len(family.VERBS) for family in FAMILIES) == len(VERBS)
    assert {verb.group for verb in VERBS.values()} == set(GROUPS)


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_a_verb_is_well_formed(verb: object) -> None:
    from broker.cli.ctl.verb import Verb

    assert isinstance(verb, Verb)
    assert verb.summary.endswith(".")
    assert set(verb.shown) <= set(verb.columns)
    assert not verb.columns or verb.may_repeat
    assert verb.needed_count <= len(verb.word_names)
    # What may be left out stands behind what may not.
    flags = [part.startswith("[") for part in verb.words.replace(" ...", "...").split()]
    assert flags == sorted(flags)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("set_permissions u a b", "not enough arguments."),
        ("add_user", "not enough arguments."),
        ("add_user a b c", "too many arguments."),
        ("list_users x", "too many arguments."),
        ("list_queues name nonsense durable more", "Info key(s) nonsense,more are not supported"),
        ("list_queues name,nonsense", "Info key(s) nonsense are not supported"),
        ("list_queues --formatter nonsense", "'nonsense' is not one of 'table', 'json'"),
        ("list_queues --nonsense", "No such option '--nonsense'"),
        ("--nonsense list_queues", "No such option '--nonsense'"),
        ("set_policy --priority x a b c", "Invalid value for '--priority'"),
        ("-t x ping", "Invalid value for '-t' / '--timeout'"),
        ("set_vm_memory_high_watermark absolute", "not enough arguments."),
        ("set_vm_memory_high_watermark 0.4 5", "too many arguments."),
        ("set_disk_free_limit mem_relative", "not enough arguments."),
        ("raise_alarm nonsense", "there is no alarm 'nonsense': memory or disk"),
        ("browse q --state nonsense", "'nonsense' is not one of 'ready', 'unacked', 'all'"),
        ("browse q nonsense", "Info key(s) nonsense are not supported"),
        ("move q", "name a queue to move to, or an exchange with --exchange"),
        ("move q r --exchange x", "name a queue to move to, or an exchange with --exchange"),
        ("redrive q --header x", "--header x: name=value"),
        ("--url ftp://x ping", "http://host:port"),
        ("completion tcsh", "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_wrong_usage_is_told_with_the_usage_before_anything_is_done(line: str, text: str) -> None:
    outcome = NOWHERE.line(line) if "--url" not in line else Ctl().line(line)
    assert outcome.status == EXIT_USAGE
    assert outcome.out == ""
    assert text in outcome.err.splitlines()[0]
    assert outcome.err.startswith("Error (argument validation): ")
    assert "\nUsage\n\nleveret ctl" in outcome.err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("list_qeues", "Did you mean 'list_queues'?"),
        ("add-user", "Did you mean 'add_user'?"),
        ("vresion", "Did you mean 'version'?"),
        ("xyz", "See 'leveret ctl help' for the commands that there are."),
        ("help lst_users", "Did you mean 'list_users'?"),
    ],
)
def test_an_unknown_verb_brings_a_hint(line: str, text: str) -> None:
    outcome = NOWHERE.line(line)
    assert outcome.status == EXIT_USAGE
    name = line.split()[-1]
    assert outcome.err == f"Command '{name}' not found.\n{text}\n"


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        ("eval", "there is no Erlang here"),
        ("eval_file", "there is no Erlang here"),
        ("exec", "there is no Erlang here"),
        ("join_cluster", "there is one node, and no cluster"),
        ("force_standalone_khepri_boot", "there is one node, and no cluster"),
        ("add_member", "a queue here has one replica"),
        ("sync_queue", "queues here have no mirrors"),
        ("set_channel_interceptor_priorities", "there are no channel interceptors here"),
        ("schema_info", "there is no Erlang here"),
        ("log_tail", "follow the log where it is written, which log_location tells"),
        ("encode", "values in the configuration are not encrypted"),
        ("encrypt_conf_value", "values in the configuration are not encrypted"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(verb: str, text: str) -> None:
    outcome = NOWHERE.line(f"{verb} 'rabbit:stop().'")
    assert outcome.status == 70
    assert outcome.err.startswith(f"Error: {verb}: {text}")
    assert len(outcome.err.splitlines()) == 1


def test_completion_by_autocomplete_needs_no_broker() -> None:
    assert NOWHERE.does("autocomplete list_q") == "list_queues\n"
    assert NOWHERE.does("autocomplete nothing") == ""


def test_no_broker_is_one_line_and_69() -> None:
    outcome = NOWHERE.line("list_users -q")
    assert outcome.status == EXIT_UNAVAILABLE
    assert outcome.out == ""
    assert outcome.err == (
        "Error: no broker answers at http://127.0.0.1:1 (connection refused): start one with"
        " `leveret serve`, or say where it is with --data-dir or --url\n"
    )


@pytest.mark.parametrize("line", ["await_startup -t 0.01", "await_online_nodes 1 --timeout 0.01"])
def test_who_waits_for_a_broker_that_does_not_come_is_told_75(line: str) -> None:
    outcome = NOWHERE.line(f"-q {line}")
    assert outcome == (75, "", "Error: the broker did not start within 0.01 s\n")


def test_with_json_an_error_is_json_too() -> None:
    outcome = NOWHERE.line("list_users --formatter json")
    assert outcome.status == EXIT_UNAVAILABLE
    assert outcome.out == ""
    facts = json.loads(outcome.err)
    assert facts["result"] == "error"
    assert facts["message"].startswith("no broker answers at")


def test_without_a_verb_all_are_listed_and_that_is_wrong_usage() -> None:
    outcome = NOWHERE()
    assert outcome.status == EXIT_USAGE
    assert outcome.out == ""
    assert all(f"   {name} " in outcome.err for name in VERBS)


@pytest.mark.parametrize("line", ["help", "--help", "-h", "-?"])
def test_help_lists_all_verbs(line: str) -> None:
    outcome = Ctl().line(line)
    assert (outcome.status, outcome.err) == (0, "")
    assert all(f"   {name} " in outcome.out for name in VERBS)


@pytest.mark.parametrize("line", ["help list_queues", "list_queues --help", "list_queues -?"])
def test_help_of_a_verb(line: str) -> None:
    outcome = Ctl().line(line)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.lines[:5] == [
        "Usage",
        "",
        "leveret ctl list_queues [--vhost <vhost>] [--online] [--offline] [--local] [column] ...",
        "",
        "Lists queues and their properties.",
    ]
    assert "\tmust be one of arguments, auto_delete, " in outcome.out
    assert "--timeout <n>" in outcome.out


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ([], "list_q", ["list_queues"]),
        ([], "compl", ["completion"]),
        (["list_queues"], "messages_ready", ["messages_ready", "messages_ready_ram"]),
        (["list_queues", "name"], "arg", ["arguments"]),
        (["help"], "set_disk", ["set_disk_free_limit"]),
        (["list_queues"], "--offl", ["--offline"]),
        (["completion"], "z", ["zsh"]),
    ],
)
def test_a_shell_can_complete(words: list[str], incomplete: str, expected: list[str]) -> None:
    complete = ShellComplete(cli, {}, "leveret", "_X")
    found = [item.value for item in complete.get_completions(["ctl", *words], incomplete)]
    assert sorted(found) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_completion_is_for_the_whole_command(shell: str) -> None:
    result = CliRunner().invoke(cli, ["ctl", "completion", shell], prog_name="leveret")
    assert result.exit_code == 0
    assert f"_LEVERET_COMPLETE={shell}_complete" in result.stdout


def test_as_rabbitmqctl_it_tells_rabbitmqs_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts go by it; a node is named, and may be any."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/rabbitmqctl", "-n", "rabbit@nowhere", "version"])
    with pytest.raises(SystemExit) as caught:
        run_as_rabbitmqctl()

    assert caught.value.code == 0
    assert capsys.readouterr().out == f"{COMPATIBLE_VERSION}\n"


def test_as_rabbitmqctl_its_usage_has_that_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/rabbitmqctl", "add_user"])
    with pytest.raises(SystemExit) as caught:
        run_as_rabbitmqctl()

    assert caught.value.code == EXIT_USAGE
    assert "\nrabbitmqctl add_user [--pre-hashed-password] <username> [password]\n" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("50MB", 50_000_000),
        ("2GiB", 2 * 2**30),
        ("1k", 1024),
        ("7", 7),
        ("1tb", 10**12),
    ],
)
def test_a_size(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5GB", "1QB"])
def test_what_is_no_size_is_unusable(text: str) -> None:
    with pytest.raises(WrongUsage, match="is no size") as caught:
        size_of(text)

    assert caught.value.status == EXIT_DATA


@pytest.mark.parametrize("text", ["x", "-0.1", "1.1", "nan", ""])
def test_what_is_no_fraction_is_unusable(text: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        fraction_of(text, 1.0)

    assert caught.value.status == EXIT_DATA
