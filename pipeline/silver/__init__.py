"""Silver tables: the log's records as rows, once each, in the order of the log.

Append-only. Every table is partitioned by `ingest_batch`; a batch is all there once `ingest_batches` lists it.
"""
