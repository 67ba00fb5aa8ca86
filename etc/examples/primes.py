#!/usr/bin/env python3
# A job can be in any language that has '#' comments: #AX lines stand before the first statement.
#AX --job-name=primes --cpus-per-task=2 --ram=256 --time=10
#AX --output=primes-%j.out
"""Counts primes with as many processes as the job has CPUs. Words after the script's name are arguments."""
import os
import sys
from concurrent.futures import ProcessPoolExecutor


def count(bounds):
    return sum(n > 1 and all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(*bounds))


if __name__ == "__main__":
    last = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    cpus = int(os.environ.get("AX_CPUS", 1))
    parts = [(a, min(a + 10_000, last)) for a in range(0, last, 10_000)]
    with ProcessPoolExecutor(cpus) as pool:
        print(f"{sum(pool.map(count, parts))} primes below {last}, counted on {cpus} CPUs")
