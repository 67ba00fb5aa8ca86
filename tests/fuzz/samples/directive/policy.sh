#AX --retry=3 --retry-on=1,75,130-140 --retry-delay=2s --begin=2026-12-24T20:00
#AX --output=%J/%r.out --open-mode=append --export=ALL,A=1 --grace=1m
##AX --none
#AX --comment="\"x\" \\ $y"
