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
NO_CIPHERS: Final = f"nothing here is encrypted with one: {NO_SECRETS}"
CLUSTER: Final = "Cluster"
SECRETS: Final = "Configuration and Environment"
PLAIN: Final = (
    (CLUSTER, "change_cluster_node_type", "<type> ...", NO_CLUSTER),
    (CLUSTER, "force_boot", "", NO_CLUSTER),
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
