"""The help of the command: what it takes, and where it differs from the tool on purpose."""

from __future__ import annotations

HELP = """Kafka's own kafka-consumer-groups flags, with a plan, safeguards and an undo.

\b
  --list [--state [LIST]] [--type [LIST]]
  --describe [--offsets|--members|--state] [--verbose]
  --reset-offsets TARGET SCOPE [--dry-run|--execute] [--export]
  --delete-offsets --group NAME --topic TOPIC...
  --delete --group NAME... | --all-groups
  --pause --group NAME --topic TOPIC... [--for DURATION]
  --resume --group NAME [--topic TOPIC...]
  --paused-partitions --group NAME... | --all-groups
  --validate-regex REGEX

Columns, their order, "-" for what is missing, and the CSV are the tool's; rows are sorted. With
--output json or csv there are more columns. Words and errors go to stderr.

Where this differs from the tool on purpose:

\b
  Exit code      0 done, 1 failed, 2 usage, 3 blocked, 4 partly. The tool
                 says 0 to nearly every failure.
  --dry-run      Changes nothing, also with --delete and --delete-offsets,
                 which the tool carries out. These two need --execute, or
                 the name of the group typed at a terminal.
  --execute      Needs --reason, is recorded, and can be undone. Where a
                 rule objects (unread records would be skipped, the log
                 begins later, a group's last offsets would go) it ends with
                 3 and names the rule; --override RULE goes on. One live
                 group or missing partition blocks the rest, but with
                 --all-groups live groups are skipped. Groups are changed
                 one after the other: a failure on the way ends with 4.
  --group        A reset never makes a group: a misspelt name is blocked. So
                 is a group that says it is Empty and commits all the same.
  --all-groups   Passes over live groups, names them, and ends with 4.
                 Leaves groups alone that never committed the topic.
  --to-current   Brings offsets outside of the log back into it. A partition
                 without a commit stays without (the tool: to the end).
  --to-latest    Stops before an open transaction.
  --to-datetime  Like --by-duration: a partition without a record that young
                 stays where it is; --past-end latest goes to the end, as
                 the tool does. A date alone, no seconds, and 90m are
                 understood; an instant to come is refused.
  --to-offset    Refuses a negative offset (the tool: to 0).
  --shift-by     Leaves a partition without a commit out and shifts the
                 others.
  --topic        With --all-topics it is refused; beside --from-file it
                 narrows the file. A topic means its partitions with a
                 commit, unless --new-topics. Ranges, topic:0-5, are
                 understood.
  --from-file    Refuses a line that lacks its offset (the tool: to 0), one
                 that is there twice, and three columns for several groups.
                 Partitions that do not exist are named at once.
  Metadata       Of a commit it is kept (the tool erases it).
  LAG            Counts records that exist: from the log start where the
                 commit is before it; - where the commit is beyond the end.
  --pause        KIP-1249 on today's brokers: a member of ours holds the
                 partitions until --resume, or for --for. Needs --execute,
                 or the name of the group typed. --reset-offsets then moves
                 what is paused while the group lives.
  --describe     Tells of each group that could not be read, and shows the
                 others. Epochs of Empty groups and TARGET columns are not
                 read: -.

A run on --bootstrap-server is undone with 'offsetbook undo RUN'; where that needs --command-config,
with --cluster NAME of a fleet file that has the cluster.
"""
