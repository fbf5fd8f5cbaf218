"""Tables of a history do not depend on how builds and chunks divide it."""

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from pipeline import group_pass
from pipeline.gold.across_groups import AcrossGroups
from pipeline.gold.group_tables import Moment
from pipeline.gold.progress import STEPS_S, grain_s
from pipeline.group_pass import GroupPass, encode_rows, read_piece
from pipeline.silver.schemas import SILVER
from tests.pipeline.gold.silver import commits, log_ends, micros, records
from tests.pipeline.hand_made import HandMade, at
from tests.pipeline.silver_tables import in_order
from tests.pipeline.test_folding import RECORDS, history

Tables = Mapping[str, list[dict[str, Any]]]
Pieces = list[dict[str, Any]]
END_S = 60_000
ENDS = [("t", partition, at(seconds), 0, 8, "file") for partition in range(2) for seconds in (9_000, END_S)]
_INPUT = pa.schema(
    [
        ("bucket", pa.int32()),
        ("place", pa.int64()),
        ("name", pa.string()),
        ("record", pa.string()),
        ("rows", pa.binary()),
    ]
)


def read_by_pass(whole: HandMade, piece: HandMade, kept: Pieces) -> Iterator[pa.RecordBatch]:
    """What a build reads: all records of groups, new commits, folds of earlier ones."""
    others = [{"bucket": one["bucket"], "name": one["name"], "rows": one["rows"]} for one in kept]
    for name, rows in records(whole).items():
        known = {column for column, _ in SILVER[name].columns}
        for row in rows:
            text = json.dumps({key: value for key, value in row.items() if key in known})
            others.append({"bucket": bucket(row["group"]), "name": name, "record": text})
    new = commits(piece)
    named = new.append_column("bucket", pa.array(map(bucket, new.column("group").to_pylist()), pa.int32()))
    schema = pa.unify_schemas([_INPUT, new.schema])
    for table in (pa.Table.from_pylist(others, _INPUT), named):
        columns = [
            table.column(field.name) if field.name in table.column_names else pa.nulls(len(table), field.type)
            for field in schema
        ]
        yield from pa.table(columns, schema=schema).to_batches()


def bucket(group: str) -> int:
    return ord(group[0]) % 3


def build(whole: HandMade, piece: HandMade, kept: Pieces, step_s: int, grain: int) -> tuple[Tables, Pieces]:
    """The tables, and the pieces for the next build."""
    moment = Moment(micros(at(END_S)), step_s, 10080)
    turn = GroupPass(moment, encode_rows(log_ends(ENDS)), grain, keeps_folds=True)
    found: dict[str, list[dict[str, Any]]] = {}
    across, kept_now = AcrossGroups(), []
    for batch in turn.run(read_by_pass(whole, piece, kept)):
        for one in batch.to_pylist():
            if one["bucket"] is not None:
                kept_now.append(one)
                continue
            table = read_piece(one["rows"])
            across.add(one["name"], table)
            found.setdefault(one["name"], []).extend(table.to_pylist())
    for table, rows in across.tables(moment.as_of_us):
        found.setdefault(table.name, []).extend(rows.to_pylist())
    return {name: in_order(rows) for name, rows in found.items()}, kept_now


def rows_of_folds(kept: Pieces) -> Tables:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in kept:
        found.setdefault(one["name"], []).extend(read_piece(one["rows"]).to_pylist())
    return {name: in_order(rows) for name, rows in found.items()}


@pytest.mark.parametrize("seed", range(5))
def test_any_number_of_builds_and_chunks_gives_the_same_tables(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    whole, steps_s = history(), sorted(chance.choices(STEPS_S[8:14], k=3))
    at_once, folds = build(whole, whole, [], steps_s[-1], grain_s(steps_s[-1]))
    assert {"velocity", "progress", "ownership", "rebalance_stats", "anomalies", "lag"} <= at_once.keys()
    monkeypatch.setattr(group_pass, "CHUNK_ROWS", chance.choice([1, 7, 1000]))
    cuts = sorted(chance.sample(range(RECORDS), 2))
    kept: Pieces = []
    for first, end, step_s in zip([0, *cuts], [*cuts, RECORDS], steps_s, strict=True):
        piece_by_piece, kept = build(
            whole.piece(0, end), whole.piece(first, end), kept, step_s, grain_s(step_s)
        )
    assert piece_by_piece == at_once, cuts
    assert rows_of_folds(kept) == rows_of_folds(folds), cuts
