"""The records of `__consumer_offsets`: Kafka's key and value schemas, and their bytes.
`protocol/records/group_record_serde.py` lists the types.

Key and value each begin with an int16. In a key it is the type of the record (historically the "version"
of the key); in a value it is the version of the value's schema. Source: the message definitions of Kafka's
group-coordinator module.
"""
