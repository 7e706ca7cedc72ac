#!/bin/sh
# hubbub under an engine that knows only "restart on failure": what starting again does not help (2: wrong options or
# query file; 4: a guarantee cannot be kept) ends with 0 here, and is said. Every other code stays what it is.
asked='' child=''
trap 'asked=1; [ -z "$child" ] || kill -TERM "$child"' TERM INT
hubbub "$@" &
child=$!
[ -z "$asked" ] || kill -TERM "$child"
wait "$child"
code=$?
while kill -0 "$child" 2>/dev/null; do # a signal ends a wait before the command has ended
    wait "$child"
    code=$?
done
case $code in
2 | 4)
    echo "hubbub $1 ended with $code: it is not started again, since that does not help" >&2
    exit 0
    ;;
esac
exit "$code"
