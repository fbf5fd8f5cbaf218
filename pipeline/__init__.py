"""The offsets log as tables and a report: reads what groupd or a Kafka broker wrote, with Spark.

`decode` and `segments` know the log and no Spark; `source` is Spark's view of it; `ingest` fills the silver
tables of a warehouse; `gold` says what they mean; `report` shows it.
"""
