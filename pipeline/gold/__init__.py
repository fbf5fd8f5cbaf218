"""Gold tables, derived from silver. Each module defines one table as a pure function from DataFrames to a
DataFrame.

All records of a group are in one partition of the offsets log, so its history has a total order: (log_partition,
log_offset). Comparisons of before and after use this order. Timestamps only measure durations.
"""
