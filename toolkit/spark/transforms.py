"""
The pipeline's steps, each a `DataFrame -> DataFrame`, from what was read to what is found.

    read (SOURCE_BLOCKS) -> add_decoded_commits (DECODED) -> ask_brokers (BLOCKS_WITH_LOG_FACTS)
    -> add_evaluation (EVALUATED_BLOCKS) -> select_results(name)

Up to the last step a row is a block, whose tables are packed: see `packed_tables.py` and
`blocks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody knows it

from toolkit.model import Cluster
from toolkit.spark.blocks import EvaluationRules, decoded_block, evaluate_blocks
from toolkit.spark.packed_tables import Row, collect_packed, on_rows, unpacked
from toolkit.spark.schemas import BLOCK, DECODED, EVALUATED_BLOCKS, PROBLEMS, RESULTS

Step = Callable[[DataFrame], DataFrame]
BLOCK_KEY = [field.name for field in BLOCK]


def read_to(read: DataFrame) -> DataFrame:
    """Keep how far each offsets partition was read: `schemas.READ_TO`."""
    return read.where("read_to is not null").select(*BLOCK_KEY, "read_to.*")


def add_decoded_commits(tasks: int, clusters: Mapping[str, Cluster]) -> Step:
    """
    Return the step that decodes each block: `schemas.DECODED`.

    From here on there are so many tasks: to begin one takes longer than to decode a block.
    """
    policies = {name: cluster.policy for name, cluster in clusters.items()}

    def decode(rows: Iterable[Row]) -> Iterator[Row]:
        return (decoded_block(row, policies[row["cluster"]]) for row in rows)

    def step(read: DataFrame) -> DataFrame:
        blocks = read.where("problem is null").drop("read_to").coalesce(tasks)
        return on_rows(blocks, decode, DECODED)

    return step


def add_evaluation(
    judging: EvaluationRules, *, log_facts: DataFrame, cluster_facts: DataFrame
) -> Step:
    """
    Return the step that adds lag, status and expiry, and sums up: `schemas.EVALUATED_BLOCKS`.

    All rules run in one pass over the blocks.
    """
    facts = cluster_facts.where("listed is not null").drop("problem")

    def step(blocks: DataFrame) -> DataFrame:
        known = blocks.drop("positions").join(F.broadcast(log_facts), BLOCK_KEY)
        known = known.join(F.broadcast(facts), "cluster", "left")
        return on_rows(known, lambda rows: evaluate_blocks(rows, judging), EVALUATED_BLOCKS)

    return step


def select_results(name: str) -> Step:
    """Return the step that gives the rows of one of the results: `schemas.RESULTS`."""
    return lambda blocks: unpacked(blocks, name, RESULTS[name])


def most_behind_first(groups: DataFrame) -> DataFrame:
    """Order groups by their lag, in one task: of a whole fleet there are not too many."""
    return groups.coalesce(1).sortWithinPartitions(F.desc_nulls_last("lag"))


def all_problems(
    session: SparkSession,
    known: Iterable[tuple[str, str]],
    rows: Iterable[DataFrame],
    evaluated: DataFrame,
) -> DataFrame:
    """
    Say once what could not be read: `schemas.PROBLEMS`.

    They are few, and put together here: Spark would shuffle them several times.
    """
    every = [
        *(one.where("problem is not null").select(*PROBLEMS.names).toArrow() for one in rows),
        collect_packed(evaluated, "problems", PROBLEMS),
    ]
    told = [tuple(row.values()) for table in every for row in table.to_pylist()]
    once = dict.fromkeys([*known, *told])
    table = pa.Table.from_pylist(
        [dict(zip(PROBLEMS.names, row, strict=True)) for row in once], schema=PROBLEMS
    )
    return session.createDataFrame(table)
