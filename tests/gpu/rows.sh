# shellcheck shell=bash
# shellcheck disable=SC2015,SC2016,SC2154,SC2317 # as in check.sh, and what it sets; functions that `try` calls
# The rows of check.sh, which reads this file.

inventory() {
    local wanted
    wanted=$(nvidia-smi -i 0 --query-gpu=uuid --format=csv,noheader)
    [ "$(card uuid)" = "$wanted" ] || { echo "uuid $(card uuid), not $wanted"; return 1; }
    local reserved counted
    reserved=$(nvidia-smi -i 0 --query-gpu=memory.reserved --format=csv,noheader,nounits)
    counted=$(card mem_mb)
    [ $((total - reserved - counted)) -ge -2 ] && [ $((total - reserved - counted)) -le 2 ] || { echo "$counted MB, not $total - $reserved"; return 1; }
    wait_for 20 '[ "$(card used_mb)" != None ] && [ "$(card temperature)" != None ]'
    [ "$(card health)" = healthy ]
}
try "inventory: UUID, memory less what the driver reserves, temperature, health" inventory

whole() {
    local id
    id=$(job --gpus 1 -- see open /dev/nvidia0)
    expect "$id" SUCCEEDED && says "$id" "cards 1" && says "$id" "opened /dev/nvidia0" && says "$id" "CUDA_VISIBLE_DEVICES=[0]" &&
        says "$id" "AX_GPU_UUIDS=[$(card uuid)]"
}
try "a whole card is seen, by its number and by its UUID" whole

none() {
    local id script=$work/jobs/none.sh
    id=$(job -- see open /dev/nvidia0 open /dev/nvidiactl)
    expect "$id" SUCCEEDED && says "$id" "cards 0" && says "$id" "CUDA_VISIBLE_DEVICES=[]" && says "$id" "open /dev/nvidia0 EPERM" || return 1
    # The mask is asked for and the fence holds.
    printf '#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0\nexec %q %q see\n' "$python" "$work/load.py" >"$script"
    id=$(axbatch --parsable -o "$work/jobs/%J.out" "$script")
    expect "$id" SUCCEEDED && says "$id" "cards 0"
}
try "a job without cards sees none, also when its script sets CUDA_VISIBLE_DEVICES: the fence holds" none

slices() {
    local go=$work/jobs/go.$RANDOM one two three
    one=$(job --gpus 1 --mem "$slice" --ram 8G -- limit take 1 until "$go")
    two=$(job --gpus 1 --mem "$slice" --ram 8G -- limit take 1 until "$go")
    wait_for 60 "output $one | grep -q 'took 1' && output $two | grep -q 'took 1'" || return 1
    three=$(job --gpus 1 --ram 8G -- say whole)
    sleep 2
    is "$one" RUNNING && is "$two" RUNNING && is "$three" READY || { ax queue; return 1; }
    ax why "$three"
    ax why "$three" | grep -qiE "card|GPU" || return 1
    touch "$go"
    expect "$one" SUCCEEDED && expect "$two" SUCCEEDED && expect "$three" SUCCEEDED
}
try "two slices share the card; a whole-card job waits for them and says so" slices

framework() {
    local id
    id=$(job --gpus 1 --mem "$slice" --ram 8G -- limit take 1 take "$over")
    expect "$id" SUCCEEDED && says "$id" "took 1" && says "$id" "out of memory" || return 1
    output "$id" | grep OUT
}
try "a slice holds by the framework's own limit (ax.limits): PyTorch gets an out-of-memory error" framework

watched() {
    local go=$work/jobs/go.$RANDOM good bad
    good=$(job --gpus 1 --mem "$slice" --ram 8G -- take 1 until "$go" say lived)
    bad=$(job --gpus 1 --mem "$slice" --ram 8G -- take "$over" hold 60 say never)
    wait_for 60 "ended $bad" || return 1
    is "$bad" OUT_OF_MEMORY || { echo "$bad is $(state "$bad")"; ax why "$bad"; return 1; }
    field "$bad" reason
    is "$good" RUNNING || { ax why "$good"; return 1; }
    touch "$go"
    expect "$good" SUCCEEDED && says "$good" lived
}
try "a job over its slice is ended as OUT_OF_MEMORY with its numbers, its neighbour is not" watched

measured() {
    local id
    id=$(job --gpus 1 -- take 2 busy 8)
    wait_for 40 '[ "$(card used_mb)" != None ] && [ "$(card used_mb)" -gt 1900 ] && [ "$(card load)" != None ] && [ "$(card load)" -ge 20 ]' || { ax resource --json; return 1; }
    expect "$id" SUCCEEDED
    ax eff "$id"
    ax eff "$id" --json | grep -q . && ax status "$id" --json | grep -E '"max_gpu_mem_mb": [1-9]'
}
try "memory and load are measured while a job runs; its account has its peak; ax eff tells both" measured

foreign() {
    local id
    clean || return 1
    "$python" "$work/load.py" take 5 hold 120 >/dev/null 2>&1 & outsider=$!
    # One look may be a spike; some in a row are not.
    wait_for 40 'ax resource --json | grep -q "pid '"$outsider"'"' || return 1
    sleep 2
    id=$(job --gpus 1 -- say began)
    sleep 2
    is "$id" READY || { echo "started beside a stranger"; ax resource --json; kill "$outsider"; return 1; }
    ax why "$id"
    ax why "$id" | grep -q "pid $outsider" || { kill "$outsider"; return 1; }
    kill -0 "$outsider" || { echo "the stranger was ended"; return 1; }
    kill "$outsider"
    # Three looks have to find him gone.
    expect "$id" SUCCEEDED 40
}
try "a card held by a stranger is not given out; the reason names the process; it is not touched" foreign

supervisor_killed() {
    local id pid
    id=$(job --gpus 1 --no-requeue -- take 3 hold 300)
    wait_for 60 "output $id | grep -q 'took 3'" || return 1
    pid=$(pgrep -f "axrun.*${id}" | head -1)
    [ -n "$pid" ] || pid=$("$python" - "$AX_ROOT/run/ax/attempts" <<'P'
import glob, json, sys
print(json.load(open(glob.glob(sys.argv[1] + "/*/started")[0]))["supervisor"]["pid"])
P
)
    kill -9 "$pid"
    wait_for 40 "ended $id" && is "$id" NODE_FAIL || { ax why "$id"; return 1; }
    clean || return 1
    id=$(job --gpus 1 -- take 1)
    expect "$id" SUCCEEDED
}
try "after SIGKILL of its supervisor nothing of a job is left on the card, and the next one has it" supervisor_killed

daemon_killed() {
    local id go=$work/jobs/go.$RANDOM
    id=$(job -- say here until "$go" open /dev/nvidia0 see)
    wait_for 30 "output $id | grep -q here" || return 1
    kill -9 "$(cat "$work/axd.pid")"
    touch "$go"
    wait_for 30 "output $id | grep -q 'cards'" || { output "$id"; start_axd; return 1; }
    start_axd
    says "$id" "open /dev/nvidia0 EPERM" && expect "$id" SUCCEEDED
}
try "the fence outlives the daemon" daemon_killed

bad_ends() {
    local how id wanted
    for how in kill segv abort exit kill segv; do
        id=$(job --gpus 1 --retry 0 -- take 2 die "$how")
        wait_for 60 "ended $id" || return 1
        [ "$(holders)" = 0 ] || { echo "after $how of $id:"; nvidia-smi; return 1; }
        clean || return 1
    done
}
try "six jobs that end badly: at the end of each no process of it is on the card" bad_ends

timeout_on_card() {
    local id
    id=$(job --gpus 1 -t 0:00:08 --grace 1 -- take 2 busy 60 2>/dev/null || job --gpus 1 -t 0:00:08 -- take 2 busy 60)
    wait_for 90 "ended $id" && is "$id" TIMEOUT || { ax why "$id"; return 1; }
    clean
}
try "a time limit ends a busy job and the card is clean" timeout_on_card

xid() {
    local id
    id=$(job --gpus 1 --retry 0 -- fault)
    wait_for 60 "ended $id" || return 1
    output "$id"
    grep -q "^fault [1-9]" <(output "$id") || { echo "no fault came"; return 1; }
    wait_for 20 "ax why $id | grep -qi xid" || { ax why "$id"; return 1; }
    ax why "$id" | grep -i xid
    [ "$(card health)" = healthy ] || { ax resource --json; return 1; }
}
try "a program's own fault (Xid 13 or 31) is told to its job and takes no card" xid

drained() {
    local id node
    node=$(card node)
    ax node drain "$node" --gpu 0 --why "tried" || return 1
    id=$(job --gpus 1 -- say began)
    sleep 2
    is "$id" READY && ax why "$id" | grep -q tried || { ax why "$id"; return 1; }
    ax node resume "$node" --gpu 0 || return 1
    expect "$id" SUCCEEDED
}
try "a drained card is given to nobody until it is resumed" drained

mps() {
    local id
    cat >"$work/mps.yaml" <<Y
queues:
  - name: default
  - name: shared
    mps: true
Y
    mkdir -p "$AX_ROOT/etc/ax"
    cp "$work/mps.yaml" "$AX_ROOT/etc/ax/config.yaml"
    ax reload || return 1
    id=$(job -q shared --gpus 1 --mem "$slice" --ram 8G -- see take 1 take "$over")
    wait_for 90 "ended $id" || { ax why "$id"; return 1; }
    output "$id"
    ax resource --json | grep '"limit"'
    says "$id" "took 1" && says "$id" "out of memory" && says "$id" "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" || return 1
    wait_for 60 '! pgrep -f nvidia-cuda-mps-server' && clean
}
if command -v nvidia-cuda-mps-control >/dev/null; then
    try "a queue with MPS: the server holds a slice" mps
else
    cannot "MPS: no nvidia-cuda-mps-control"
fi

"$python" - <<'P' && cannot "the driver's limit per control group is there; this check does not try it yet" || cannot "the driver's limit per control group: driver $(nvidia-smi -i 0 --query-gpu=driver_version --format=csv,noheader) has none (615 has)"
import ctypes, sys
sys.exit(0 if hasattr(ctypes.CDLL("libnvidia-ml.so.1"), "nvmlDeviceSetMemoryLimits_v1") else 1)
P
[ "$(nvidia-smi -L | grep -c '^GPU')" -gt 1 ] && cannot "several cards are there; this check tries the first only" || cannot "several cards in one job, links, NUMA: one card"
cannot "MIG: ax makes no instances, and there are none"
cannot "Xids and memory errors of the hardware, a card that falls off the bus, a driver that hangs: none can be had on purpose"
