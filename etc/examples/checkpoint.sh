#!/bin/sh
# A long computation with a time limit. USR1 comes 20 seconds before the limit: it saves where it is and
# ends with status 75, which --retry-on starts again. The next attempt goes on from there.
#AX --job-name=checkpoint --cpus-per-task=1
#AX --time=1:00 --signal=B:USR1@20
#AX --retry=5 --retry-on=75 --retry-delay=1s

state=${CHECKPOINT:-$PWD/checkpoint.$AX_JOB_NUMBER}
steps=${STEPS:-60}
step=$(cat "$state" 2>/dev/null || echo 0)
# Whole or not at all: write beside it, then rename.
save() { echo "$step" >"$state.new" && mv "$state.new" "$state"; }
trap 'save; echo "saved at step $step"; exit 75' USR1

echo "attempt $AX_ATTEMPT begins at step $step"
while [ "$step" -lt "$steps" ]; do
    sleep 1 & # in the background, so that the signal is not kept waiting
    wait $!
    step=$((step + 1))
done
rm -f "$state"
echo "done after $step steps"
