"""Verbs of rabbitmqctl that cannot do here what they do there (cli layer)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_SOFTWARE, CtlError
from broker.cli.ctl.verb import Run, Verb

if TYPE_CHECKING:
    from broker.cli.ctl.printing import Result

__all__ = ["VERBS"]

NO_ERLANG: Final = (
    "there is no Erlang here to evaluate anything: alarms are raised with raise_alarm and"
    " clear_alarm, limits set with set_vm_memory_high_watermark and set_disk_free_limit, and the"
    " rest in the configuration file, which reload reads again"
)
NO_CLUSTER: Final = "there is one node, and no cluster that it could join or leave"
NO_SECRETS: Final = (
    "values in the configuration are not encrypted: take them from the environment, as"
    " ${VARIABLE}, or from a file that is the broker's alone"
)
NO_REPLICAS: Final = "a queue here has one replica, on the one node that there is"
NO_MIRRORS: Final = "queues here have no mirrors"
NO_RUNTIME: Final = "there is no Erlang here, and so nothing of it to show or to set"
NO_INTERCEPTORS: Final = "there are no channel interceptors here"
LOG: Final = "follow the log where it is written, which log_location tells: tail -f FILE"
NO_CIPHERS: Final = f"nothing here is encrypted with one: {NO_SECRETS}"
CLUSTER: Final = "Cluster"
SECRETS: Final = "Configuration and Environment"
PLAIN: Final = (
    (CLUSTER, "change_cluster_node_type", "<type> ...", NO_CLUSTER),
    (CLUSTER, "add_member", "[queue] ...", NO_REPLICAS),
    (CLUSTER, "delete_member", "[queue] ...", NO_REPLICAS),
    (CLUSTER, "grow", "[node] ...", NO_REPLICAS),
    (CLUSTER, "shrink", "[node] ...", NO_REPLICAS),
    (CLUSTER, "transfer_leadership", "[queue] ...", NO_REPLICAS),
    (CLUSTER, "sync_queue", "[queue] ...", NO_MIRRORS),
    (CLUSTER, "cancel_sync_queue", "[queue] ...", NO_MIRRORS),
    (CLUSTER, "force_boot", "", NO_CLUSTER),
    (CLUSTER, "force_standalone_khepri_boot", "[word] ...", NO_CLUSTER),
    (CLUSTER, "forget_cluster_node", "<node> ...", NO_CLUSTER),
    (CLUSTER, "join_cluster", "<node> ...", NO_CLUSTER),
    (CLUSTER, "rename_cluster_node", "<node> ...", NO_CLUSTER),
    (CLUSTER, "update_cluster_nodes", "<node> ...", NO_CLUSTER),
    (SECRETS, "decode", "[value] ...", NO_SECRETS),
    (SECRETS, "decrypt_conf_value", "[value] ...", NO_SECRETS),
    (SECRETS, "encode", "[value] ...", NO_SECRETS),
    (SECRETS, "encrypt_conf_value", "[value] ...", NO_SECRETS),
    (SECRETS, "list_ciphers", "", NO_CIPHERS),
    (SECRETS, "list_hashes", "", NO_CIPHERS),
    (SECRETS, "set_channel_interceptor_priorities", "[interceptor] ...", NO_INTERCEPTORS),
    ("Operations", "hipe_compile", "[directory] ...", NO_RUNTIME),
    ("Operations", "maybe_stuck", "[word] ...", NO_RUNTIME),
    ("Operations", "observer", "[word] ...", NO_RUNTIME),
    ("Operations", "remote_shell", "[word] ...", NO_RUNTIME),
    ("Operations", "runtime_thread_stats", "[word] ...", NO_RUNTIME),
    ("Operations", "schema_info", "[column] ...", NO_RUNTIME),
    ("Operations", "log_tail", "[option] ...", LOG),
    ("Operations", "log_tail_stream", "[option] ...", LOG),
    ("Operations", "eval", "<expression> ...", NO_ERLANG),
    ("Operations", "eval_file", "<file_path> ...", NO_ERLANG),
    ("Operations", "exec", "<expression> ...", NO_ERLANG),
)


def _refuse(reason: str, run: Run) -> Result:
    raise CtlError(f"{run.verb.name}: {reason}", EXIT_SOFTWARE)


VERBS: Final = tuple(
    Verb(name, group, f"Refused: {reason}.", words, partial(_refuse, reason))
    for group, name, words, reason in PLAIN
)
