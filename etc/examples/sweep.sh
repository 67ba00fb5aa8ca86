#!/bin/sh
# A sweep: submits one job for each value. Run it by hand (`sh sweep.sh`) or as a job itself.
# `--wrap` makes a script of a command; `--parsable` prints the id alone.

for rate in 0.1 0.01 0.001; do
    # shellcheck disable=SC2016 # for the job to expand, not for this shell
    id=$(axbatch --parsable --job-name="rate-$rate" --time=10 --env="RATE=$rate" --output='sweep-%x.out' \
        --wrap 'echo "training with rate $RATE as job $AX_JOB_ID"; sleep 1') || exit
    echo "rate $rate is job $id"
done
echo "watch them with: ax queue"
