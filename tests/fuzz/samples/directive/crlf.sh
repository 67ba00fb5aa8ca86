#!/bin/bash -e
#AX --gpus=2 --mem=40G --time=8h # cards
#AX -J "a b" --env=X='$JOB_ID' --nodelist=gpu-[01-04,7]
echo hi
