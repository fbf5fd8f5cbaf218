#!/bin/bash
# Create the topics of KAFKA_CREATE_TOPICS, as the script of wurstmeister's images: NAME:PARTITIONS:REPLICAS[:CLEANUP],...
IFS="${KAFKA_CREATE_TOPICS_SEPARATOR-,}" read -r -d '' -a topics <<<"${KAFKA_CREATE_TOPICS-}"
for topic in "${topics[@]}"; do
    IFS=: read -r name partitions replicas cleanup <<<"${topic//[[:space:]]/}"
    [[ $name ]] || continue
    kafka-topics.sh --create --if-not-exists --bootstrap-server "localhost:${KAFKA_PORT:-9092}" --topic "$name" \
        --partitions "$partitions" --replication-factor "$replicas" ${cleanup:+--config "cleanup.policy=$cleanup"}
done
