"""Words of other tools that are no commands here, and the matching commands."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from toolkit.errors import UsageError

_LIST = "'offsetbook groups list'"
_DESCRIBE = "'offsetbook groups describe GROUP' (offsets, lag, members)"
_HEALTH = "'offsetbook health' (one word for each group, worst first)"
_DELETE = "'offsetbook delete-groups' (empty groups) or 'offsetbook delete-offsets'"
_RESET = "'offsetbook reset' (empty groups) or 'offsetbook move' (live groups)"
_RECORDS = "'offsetbook peek' (the records around a group's committed offsets)"
_TOPICS = "'offsetbook lag --by partition' (topics of groups); kafka-topics.sh lists all topics"
_CLUSTERS = (
    "'offsetbook fleet list' (the fleet file), 'offsetbook fleet check' or 'offsetbook doctor'"
)
_AUDIT = "'offsetbook audit list' (who changed what, when and why)"
_TOOL = "'offsetbook consumer-groups', which takes the flags of kafka-consumer-groups.sh"
_SANDBOX = "'offsetbook sandbox up' or 'offsetbook sandbox down'"
_LAB = "'offsetbook lab' (opens JupyterLab) or 'offsetbook run' (runs a notebook headlessly)"

_HINTS = {
    _LIST: ("list", "ls", "list-groups", "group"),
    _DESCRIBE: (
        *("describe", "describe-group", "describe-groups", "show", "get", "state"),
        *("members", "offsets", "committed", "partitions"),
    ),
    _HEALTH: ("status", "stuck", "overview", "alerts", "top", "monitor"),
    _DELETE: ("delete", "remove", "rm", "drop", "delete-group", "delete-consumer-group"),
    _RESET: (
        *("reset-offsets", "reset-offset", "set-offsets", "alter-offsets", "alter", "seek"),
        *("rewind", "replay", "skip", "shift", "commit"),
    ),
    _RECORDS: ("consume", "cat", "tail", "records", "messages", "view", "head"),
    _TOPICS: ("topics", "topic"),
    _CLUSTERS: ("cluster", "brokers", "broker", "nodes", "ping", "check", "contexts", "config"),
    _AUDIT: ("history", "log", "logs", "events", "runs"),
    _TOOL: ("kafka-consumer-groups", "kafka-consumer-groups.sh", "consumer-group", "consumergroup"),
    _SANDBOX: ("up", "down", "start", "stop"),
    _LAB: ("notebook", "notebooks", "jupyter", "jupyterlab"),
    "'offsetbook export' (committed offsets)": ("backup", "save", "dump"),
    "'offsetbook restore' (exported offsets)": ("import", "load"),
    "'offsetbook undo RUN'; 'offsetbook audit list' shows the runs": ("rollback", "revert", "back"),
    "'offsetbook plan' (a plan file), or --dry-run after any command that changes something": (
        *("dry-run", "preview", "diff"),
    ),
    "'offsetbook unsubscribed'": ("unused", "stale", "leftovers", "orphans", "cleanup"),
    "'offsetbook --help'": ("help",),
    "'offsetbook --version'": ("version",),
}
FAMILIAR = {word: hint for hint, words in _HINTS.items() for word in words}
TOOL_FLAGS = frozenset(
    f"--{name}"
    for name in (
        *("bootstrap-server", "command-config", "list", "describe", "delete", "delete-offsets"),
        *("reset-offsets", "group", "all-groups", "topic", "all-topics", "members", "state"),
        *("offsets", "execute", "verbose", "validate-regex"),
    )
)


def unknown_command(word: str, commands: Iterable[str]) -> UsageError:
    hint = FAMILIAR.get(word.lower())
    if hint is None:
        close = get_close_matches(word.lower(), [*commands, *FAMILIAR], n=1, cutoff=0.7)
        near = close[0] if close else ""
        hint = FAMILIAR.get(near) or (f"'offsetbook {near}'" if near else "'offsetbook --help'")
    return UsageError(f"offsetbook has no command {word!r}", hint=hint)


def unknown_option(name: str) -> UsageError | None:
    """Return the error for an option of kafka-consumer-groups.sh without a command before it."""
    if name not in TOOL_FLAGS:
        return None
    return UsageError(f"{name} needs a command before it", hint=_TOOL)
