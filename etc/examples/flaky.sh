#!/bin/sh
# Fails twice and then succeeds. Retries wait 1 s, then 2 s; each attempt has an output file of its own
# (the second one ends in .r1.out), and `ax status` shows all of them.
#AX --job-name=flaky --time=5
#AX --retry=3 --retry-delay=1s --retry-on=7

echo "attempt $AX_ATTEMPT of $AX_JOB_ID"
if [ "$AX_ATTEMPT" -lt 3 ]; then
    echo "the server is not there yet" >&2
    exit 7
fi
echo "the server answered"
