"""The help of the command: what it takes, and where it differs from the tool on purpose."""

from __future__ import annotations

HELP = """Kafka's own kafka-consumer-groups flags, with a plan, safeguards and an undo.

\b
  --list [--state [LIST]] [--type [LIST]]
  --describe [--offsets|--members|--state] [--verbose]
  --reset-offsets TARGET SCOPE [--dry-run|--execute] [--export]
  --delete-offsets --group NAME --topic TOPIC...
  --delete --group NAME... | --all-groups
  --validate-regex REGEX

Columns, their order, "-" for what is missing, and the CSV are the tool's; rows are sorted. With
--output json or csv there are more columns. Words and errors go to stderr.

Where this differs from the tool on purpose:

\b
  Exit code   0 done, 1 failed, 2 usage, 3 blocked, 4 partly. The tool says 0
              to nearly every failure.
  --dry-run   changes nothing, also with --delete and --delete-offsets, which
              the tool carries out. These two need --execute, or the name of
              the group typed at a terminal.
  --execute   needs --reason, is recorded, and can be undone. What a rule
              objects to (skipping unread records, a log that begins later, the
              last offsets of a group) is exit 3 and names the rule; --override
              RULE goes on. All is done or nothing: one live group or missing
              partition blocks the rest.
  Groups      are never created by a reset: a misspelt name is blocked. One
              that says it is Empty and commits all the same is blocked.
  --all-groups  passes over live groups, names them, and ends with 4; it leaves
              groups alone that never committed the topic.
  --to-current  brings offsets outside of the log back into it; a partition
              without a commit stays without one (the tool: to the end).
  --to-latest   stops before an open transaction.
  --to-datetime, --by-duration  a partition without a record that young stays
              where it is; --past-end latest goes to the end, as the tool does.
  --to-offset   refuses a negative offset (the tool: to 0).
  --shift-by  leaves a partition without a commit out and shifts the others.
  --topic     with --all-topics is refused; with --from-file it narrows the
              file. A topic means its partitions with a commit, unless
              --new-topics. Ranges, topic:0-5, are understood.
  --from-file refuses a line that lacks its offset (the tool: to 0), one that
              is there twice, and three columns for several groups. Partitions
              that do not exist are named at once.
  Metadata    of a commit is kept (the tool erases it).
  LAG         counts records that exist: from the log start where the commit is
              before it, "-" where the commit is beyond the end.
  --describe  tells of each group that could not be read, and shows the others.
              Epochs of Empty groups and TARGET columns are not read: "-".

A run on --bootstrap-server is undone with 'offsetbook undo RUN'; where that needs --command-config,
with --cluster NAME of a fleet file that has the cluster.
"""
