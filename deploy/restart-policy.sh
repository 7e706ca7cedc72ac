#!/bin/sh
# Run hubbub under an engine that knows only "restart on failure". A restart does not help after code 2 (wrong options or
# query file) and code 4 (a guarantee cannot be kept). For these the script prints a message and exits with 0. It passes
# every other code on. A worker that waits for the formats version must not end for ever, so here it waits without a limit.
export HUBBUB_UPGRADE_PATIENCE="${HUBBUB_UPGRADE_PATIENCE:-max}"
asked='' child=''
trap 'asked=1; [ -z "$child" ] || kill -TERM "$child"' TERM INT
hubbub "$@" &
child=$!
[ -z "$asked" ] || kill -TERM "$child"
wait "$child"
code=$?
while kill -0 "$child" 2>/dev/null; do # a signal can end the wait before the command ends
    wait "$child"
    code=$?
done
case $code in
2 | 4)
    echo "hubbub $1 exited with code $code. A restart does not help. Fix the cause in the log above, then start it again" >&2
    exit 0
    ;;
esac
exit "$code"
