#!/bin/bash
# Start groupd with a properties file, as Kafka starts: kafka-server-start.sh [-daemon] FILE [--override NAME=VALUE]...
options=() in_background=
[[ ${1-} == -daemon ]] && in_background=1 && shift
if (($# == 0)); then
    echo "USAGE: $0 [-daemon] server.properties [--override property=value]*" >&2
    exit 1
fi
file=$1 && shift
while (($#)); do
    case $1 in
        --override) options+=(-o "${2-}") && shift 2 ;;
        --override=*) options+=(-o "${1#*=}") && shift ;;
        *) echo "kafka-server-start.sh: unknown option $1. Use --override property=value." >&2 && exit 1 ;;
    esac
done
if [[ $in_background ]]; then
    nohup groupd serve --config "$file" "${options[@]}" >/dev/null 2>&1 &
    exit
fi
exec groupd serve --config "$file" "${options[@]}"
