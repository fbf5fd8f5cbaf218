#!/bin/bash
# groupd formats its directory itself: format and the other commands do nothing. random-uuid prints an id of Kafka's form.
[[ ${1-} == random-uuid ]] || exit 0
id=-
while [[ $id == -* ]]; do
    id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_')
done
echo "${id%==}"
