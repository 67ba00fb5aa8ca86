#!/bin/sh
# Leaves processes behind, one of them in a session of its own. When the script has ended, so has the job:
# nothing that it started stays. Wait for what you need, as with the second one here.
#AX --job-name=children --time=5

setsid sleep 600 >/dev/null 2>&1 &
(sleep 2 && echo "the child that was waited for is done") &
needed=$!
echo "started two children, waiting for $needed"
wait "$needed"
echo "ending; the other one ends with me"
