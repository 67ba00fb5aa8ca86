#!/bin/sh
# Asks for 64 MB of memory and takes more. The kernel ends it, nothing else on the machine notices, and the
# job ends as OUT_OF_MEMORY; `ax status` says how much it had used. Ask for what you need with --ram.
#AX --job-name=memory --time=5
#AX --ram=64

echo "taking memory, with an allowance of 64 MB"
# A line without an end: the shell has to hold all of it, and doubles it until it may not.
x=0123456789abcdef
while [ ${#x} -lt 1000000000 ]; do
    x=$x$x
    echo "holding ${#x} bytes"
done
echo "nobody stopped me: are control groups there?"
