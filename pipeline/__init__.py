"""Convert the offsets log of groupd or a Kafka broker to tables and a report with Spark.

`decode` and `segments` read the log without Spark; `source` is its Spark data source; `ingest` fills the silver
tables of a warehouse; `gold` derives tables from them; `report` presents these.
"""
