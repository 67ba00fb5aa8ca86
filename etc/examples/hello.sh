#!/bin/sh
# The smallest useful job. Submit it with `axbatch hello.sh`; its output comes into ax-NUMBER.out, in the
# folder from which it was submitted. Lines with #AX are options, just as on the command line.
#AX --job-name=hello
#AX --time=5

echo "Hello from job $AX_JOB_ID on $AX_NODE."
echo "I am $(id -un), in $PWD, with $AX_CPUS CPU and attempt number $AX_ATTEMPT."
