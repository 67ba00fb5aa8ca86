# shellcheck shell=bash
# shellcheck disable=SC2015,SC2016,SC2046,SC2154,SC2317 # as in frame.sh; functions that `try` calls
# The rows of check.sh, which reads this file.

# --- what there is

python=${PYTHON:-}
if [ -z "$python" ]; then
    for found in "$(command -v python3)" /opt/*/bin/python3 /opt/*/.venv/bin/python3 /opt/*/venv/bin/python3; do
        [ -x "$found" ] || continue
        : "${python:=$found}"
        # Whether it is there; whether it works is asked below.
        if within 20 "$found" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'; then python=$found; break; fi
    done
fi
[ -n "$python" ] || lack python "no python3"

baseline=0 total=0
query=gpu=memory.total,memory.used,uuid,driver_version,name
if ! command -v nvidia-smi >/dev/null; then
    lack card "no nvidia-smi: no card, or no driver"
elif within 30 smi $query; then
    card_words=$(said)
    IFS=', ' read -r total baseline card_uuid _ <<<"$card_words"
    case $total$baseline in *[!0-9]* | '') lack card "the driver does not say how much memory the card has: $card_words" ;; esac
elif [ $? = 124 ]; then
    lack card "nvidia-smi does not answer"
else
    lack card "nvidia-smi: $(said)"
fi
if [ -z "${lacks[card]:-}" ] && within 20 smi gpu=mig.mode.current && [ "$(said)" = Enabled ]; then
    lack card "the card is divided (MIG), and this check tries whole ones"
fi
if [ -z "${lacks[card]:-}" ]; then
    within 20 smi compute-apps=pid,name
    strangers=$(grep '[0-9]' "$work/out" | tr '\n' ' ')
    [ -z "$strangers" ] || lack free "somebody uses the card: $strangers"
    [ "$baseline" -le $((total / 8)) ] || lack free "$baseline MiB of the card are in use, and nvidia-smi does not say whose they are"
else
    lack free "${lacks[card]}"
fi
# Slices in GiB that fit any card from 16 GB on, and what goes over them; RAM that a program of PyTorch needs.
slice=$((total / 1024 / 8)) over=$((total / 1024 / 4)) ram=6G
# Seconds that a job is at work, and that another may be.
work_s=8 limit_s=15
[ -z "${QUICK:-}" ] || work_s=3 limit_s=4
if [ "$slice" -lt 2 ]; then lack free "a card of $total MiB is too small for this check"; fi

: >"$AX_ROOT/etc/ax/config.yaml"
loads() { env -i "$python" -c 'import ctypes; ctypes.CDLL("libnvidia-ml.so.1")'; }
library=${NVML:-}
if [ -z "$library" ] && [ -z "${lacks[python]:-}${lacks[card]:-}" ] && ! within 20 loads; then
    for found in ${LD_LIBRARY_PATH//:/ } /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/wsl/lib /usr/lib64 /usr/lib/x86_64-linux-gnu; do
        if [ -e "$found/libnvidia-ml.so.1" ]; then library=$found/libnvidia-ml.so.1; break; fi
    done
fi
control=$(command -v nvidia-cuda-mps-control) || lack mps "no nvidia-cuda-mps-control"
{
    [ -z "$library$control" ] || echo "paths:"
    [ -z "$library" ] || echo "  nvml: $library"
    [ -z "$control" ] || echo "  mps_control: $control"
    [ -z "${SETTINGS:-}" ] || cat "$SETTINGS"
} >>"$AX_ROOT/etc/ax/config.yaml"

if [ -n "${lacks[python]:-}" ]; then
    lack torch "${lacks[python]}"
elif [ -n "${lacks[card]:-}" ]; then
    lack torch "${lacks[card]}"
elif within 90 "$python" -c 'import torch; torch.zeros(1).cuda(); print(torch.__version__)'; then
    row note "PyTorch $(said), $python"
elif [ $? = 124 ]; then
    lack torch "PyTorch of $python does not get to the card within 90 s"
else
    lack torch "$python has no PyTorch that sees a card: $(said)"
fi

# Whose memory is what, the driver says by pids, which are those of another name space in many a container.
probe_pids() {
    local pid
    pid=$(outsider take 1 hold 60)
    if ! wait_for 60 '[ "$(used)" -ge $((baseline + 900)) ]'; then
        cat "$work/outsider.out"
        return 1
    fi
    wait_for 3 "smi compute-apps=pid,used_memory | grep -qE '^ *$pid, *(9[0-9]{2}|[0-9]{4,}) *\$'"
}
if [ -z "${lacks[torch]:-}${lacks[free]:-}" ]; then
    within 75 probe_pids || lack pids "the driver does not say which process has memory, or how much, or not by pids that there are here"
    end_outsiders
    within 25 clean || lack free "memory of a process that has ended stays in use: more than the $baseline MiB that were at first"
fi

# --- rows

within 25 start_axd && ok "the daemon starts" || { bad "the daemon starts" "$(said 30)"; lack daemon "no daemon"; }

# This check is about the first card only.
only_first() {
    local node number
    node=$(card node)
    for number in $(axes ax resource --json | sed -n 's/^    "index": \([1-9][0-9]*\),$/\1/p'); do
        axes ax node drain "$node" --gpu "$number" --why "the check is about card 0"
    done
}
[ -n "${lacks[daemon]:-}" ] || within 60 only_first
minor=$(axes ax resource --json 2>/dev/null | sed -n 's/^      "minor": \([0-9]*\),\{0,1\}$/\1/p' | head -1)
file=/dev/nvidia${minor:-0}
[ -c "$file" ] || lack file "there is no $file"

inventory() {
    local reserved counted
    [ "$(card uuid)" = "$card_uuid" ] || { echo "uuid $(card uuid), not $card_uuid"; return 1; }
    reserved=$(smi gpu=memory.reserved) counted=$(card mem_mb)
    # Older drivers do not tell it; it counts as used then.
    case $reserved in *[!0-9]* | '') reserved=0 ;; esac
    [ $((total - reserved - counted)) -ge -2 ] && [ $((total - reserved - counted)) -le 2 ] || { echo "$counted MB, not $total - $reserved"; return 1; }
    wait_for 20 '[ "$(card used_mb)" != null ] && [ "$(card temperature)" != null ]' || { ax resource --json; return 1; }
    [ "$(card health)" = healthy ] || { ax resource --json; return 1; }
}
try "inventory: UUID, memory less what the driver reserves, temperature, health" 40 "card daemon" inventory

fenced() {
    local id
    id=$(submit --gpus 1 --ram 100M "$(script true)") && expect "$id" SUCCEEDED 30 || return 1
    ax why "$id" | tr -s ' \n' ' ' | grep -q "can open no others" && return 0
    axes ax node list
    echo "no fence: $(axes ax node list --json | value reason)"
    return 77
}
try "a job with a card is told that it can open no others" 40 "card free daemon" fenced
case $(said) in "no fence"*) lack fence "$(said)" ;; esac
[[ ${lacks[fence]:-} != *"no control groups"* ]] || lack groups "jobs have no control groups here, by which their processes are known"
[ -z "${lacks[card]:-}" ] || lack fence "${lacks[card]}"

whole() {
    local id
    id=$(job --gpus 1 --ram $ram -- see open "$file")
    expect "$id" SUCCEEDED 90 && says "$id" "CUDA_VISIBLE_DEVICES=[0]" && says "$id" "AX_GPU_UUIDS=[$(card uuid)]" || return 1
    [ -n "${lacks[torch]:-}" ] || says "$id" "cards 1" || return 1
    [ -n "${lacks[file]:-}" ] || ! output "$id" | grep -E "open $file (EPERM|EACCES)" || return 1
}
try "a whole card is seen, by its number and by its UUID, and its file is open to the job" 100 "card free daemon python" whole

none() {
    local id
    id=$(job --ram $ram -- see open "$file" open /dev/nvidiactl)
    expect "$id" SUCCEEDED 90 && says "$id" "CUDA_VISIBLE_DEVICES=[]" && says "$id" "open $file EPERM" || return 1
    [ ! -c /dev/nvidiactl ] || says "$id" "open /dev/nvidiactl EPERM" || return 1
    # The mask is asked for and the fence holds.
    id=$(submit --ram $ram "$(script "export CUDA_VISIBLE_DEVICES=0; exec '$python' '$work/load.py' see open '$file'")")
    expect "$id" SUCCEEDED 90 && says "$id" "CUDA_VISIBLE_DEVICES=[0]" && says "$id" "open $file EPERM" || return 1
    [ -n "${lacks[torch]:-}" ] || says "$id" "cards 0"
}
try "a job without cards opens none, also when its script sets CUDA_VISIBLE_DEVICES: the fence holds" 100 "card daemon python fence file" none

slices() {
    local go=$work/jobs/go.$RANDOM one two three
    one=$(job --gpus 1 --mem "${slice}G" --ram $ram -- take 1 until "$go")
    two=$(job --gpus 1 --mem "${slice}G" --ram $ram -- take 1 until "$go")
    wait_for 60 "output $one | grep -q 'took 1' && output $two | grep -q 'took 1'" || return 1
    three=$(job --gpus 1 --ram $ram -- say whole)
    sleep 2
    is "$one" RUNNING && is "$two" RUNNING && is "$three" READY || { ax queue; return 1; }
    ax why "$three" | grep -iE "card|GPU" || { ax why "$three"; return 1; }
    touch "$go"
    expect "$one" SUCCEEDED && expect "$two" SUCCEEDED && expect "$three" SUCCEEDED
}
try "two slices share the card; a whole-card job waits for them and says so" 120 "free torch pids daemon groups" slices

driver_limit() {
    local id
    if [ "$(card limit)" != driver ]; then
        grep -o 'cards_not_limited_by_driver.*' "$AX_ROOT/var/log/ax-controller.log" | tail -1 | grep . || echo "the daemon does not say why"
        return 77
    fi
    id=$(job --gpus 1 --mem "${slice}G" --ram $ram -- total take 1 take "$over")
    expect "$id" SUCCEEDED 90 && says "$id" "took 1" && says "$id" "out of memory" || return 1
    [ "$(output "$id" | sed -n 's/^total //p')" -le $((slice * 1024)) ] || { output "$id"; return 1; }
    clean
}
try "the driver's limit on a control group: a slice is all that its job sees and gets" 120 "free torch daemon" driver_limit
[ "$(card limit 2>/dev/null)" != driver ] || lack watch "the driver limits slices here, so that nobody gets beyond one"

framework() {
    local id
    id=$(job --gpus 1 --mem "${slice}G" --ram $ram -- limit take 1 take "$over")
    expect "$id" SUCCEEDED 90 && says "$id" "limited ['torch: " && says "$id" "took 1" && says "$id" "out of memory"
}
try "a slice holds by the framework's own limit (ax.limits): PyTorch gets an out-of-memory error" 100 "free torch daemon watch" framework

watched() {
    local go=$work/jobs/go.$RANDOM good bad
    good=$(job --gpus 1 --mem "${slice}G" --ram $ram -- take 1 until "$go" say lived)
    bad=$(job --gpus 1 --mem "${slice}G" --ram $ram --no-requeue -- take "$over" hold 60 say never)
    wait_for 60 "ended $bad" || { ax why "$bad"; ax resource --json; return 1; }
    is "$bad" OUT_OF_MEMORY || { echo "$bad is $(state "$bad")"; ax why "$bad"; return 1; }
    field "$bad" reason
    is "$good" RUNNING || { ax why "$good"; return 1; }
    touch "$go"
    expect "$good" SUCCEEDED && says "$good" lived
}
try "a job over its slice is ended as OUT_OF_MEMORY with its numbers, its neighbour is not" 120 "free torch pids daemon watch groups" watched

measured() {
    local id
    id=$(job --gpus 1 --ram $ram -- take 2 busy $work_s)
    wait_for 60 'u=$(card used_mb) l=$(card load); [ "$u" != null ] && [ "$u" -gt 1900 ] && [ "$l" != null ] && [ "$l" -ge 20 ]' || { ax resource --json; return 1; }
    expect "$id" SUCCEEDED || return 1
    ax eff "$id" || return 1
    ax eff "$id" --json | grep -q . && ax status "$id" --json | grep -E '"max_gpu_mem_mb": [1-9]'
}
try "memory and load are measured while a job runs; its account has its peak; ax eff tells both" 100 "free torch pids daemon groups" measured

foreign() {
    local id pid
    clean || return 1
    pid=$(outsider take 5 hold 100)
    # One look may be a spike; some in a row are not.
    wait_for 40 'ax resource --json | grep -q "pid '"$pid"'"' || { ax resource --json; return 1; }
    sleep 2
    id=$(job --gpus 1 --ram $ram -- say began)
    sleep 2
    is "$id" READY || { ax resource --json; echo "started beside a stranger"; return 1; }
    ax why "$id"
    ax why "$id" | grep -q "pid $pid" || return 1
    kill -0 "$pid" || { echo "the stranger was ended"; return 1; }
    end_outsiders
    # Three looks have to find him gone.
    expect "$id" SUCCEEDED 40
}
try "a card held by a stranger is not given out; the reason names the process; it is not touched" 150 "free torch pids daemon" foreign

supervisor_killed() {
    local id pid
    id=$(job --gpus 1 --ram $ram --no-requeue -- take 3 hold 300)
    wait_for 60 "output $id | grep -q 'took 3'" || return 1
    pid=$(tr -d ' \n' <"$(echo "$AX_ROOT/run/ax/attempts/$id".*/started)" | sed -n 's/.*"supervisor":{"pid":\([0-9]*\).*/\1/p')
    [ -n "$pid" ] || { echo "no supervisor in the records"; return 1; }
    kill -9 "$pid"
    wait_for 40 "ended $id" && is "$id" NODE_FAIL || { ax why "$id"; return 1; }
    clean || return 1
    id=$(job --gpus 1 --ram $ram -- take 1)
    expect "$id" SUCCEEDED
}
try "after SIGKILL of its supervisor nothing of a job is left on the card, and the next one has it" 150 "free torch daemon" supervisor_killed

daemon_killed() {
    local id go=$work/jobs/go.$RANDOM
    id=$(job --ram $ram -- say here until "$go" open "$file" say over)
    wait_for 30 "output $id | grep -q here" || return 1
    kill -9 "$(cat "$work/axd.pid")"
    touch "$go"
    wait_for 30 "output $id | grep -q over" || { output "$id"; return 1; }
    start_axd || return 1
    says "$id" "open $file EPERM" && expect "$id" SUCCEEDED
}
try "the fence outlives the daemon" 90 "card daemon python fence file" daemon_killed

bad_ends() {
    local how id
    for how in kill segv abort exit kill segv; do
        id=$(job --gpus 1 --ram $ram --retry 0 -- take 2 die "$how")
        wait_for 60 "ended $id" || { ax why "$id"; return 1; }
        [ "$(holders)" = 0 ] || { echo "after $how of $id:"; nvidia-smi; return 1; }
        clean || return 1
    done
}
try "six jobs that end badly: at the end of each no process of it is on the card" 150 "free torch pids daemon" bad_ends

timeout_on_card() {
    local id
    id=$(job --gpus 1 --ram $ram -t "$limit_s"s --grace 1 -- take 2 busy 60)
    wait_for 60 "ended $id" && is "$id" TIMEOUT || { ax why "$id"; return 1; }
    clean
}
try "a time limit ends a busy job and the card is clean" 90 "free torch daemon" timeout_on_card

xid() {
    local id
    id=$(job --gpus 1 --ram $ram --retry 0 -- fault)
    wait_for 60 "ended $id" || return 1
    output "$id"
    if ! grep -q "^fault [1-9]" <(output "$id"); then echo "no fault could be made: $(output "$id" | tail -1)"; return 77; fi
    if ! wait_for 20 "ax why $id | grep -qi xid"; then
        ax why "$id"
        # Whether it is the driver's silence, its own log tells.
        if dmesg 2>/dev/null | tail -50 | grep -i "NVRM: Xid"; then return 1; fi
        echo "the program's fault ($(output "$id" | grep ^fault)) is told neither by the driver's events nor in the kernel's log"
        return 77
    fi
    ax why "$id" | grep -i xid
    [ "$(card health)" = healthy ] || { ax resource --json; return 1; }
}
try "a program's own fault (Xid 13 or 31) is told to its job and takes no card" 100 "free torch pids daemon" xid

drained() {
    local id node
    node=$(card node)
    ax node drain "$node" --gpu 0 --why "tried" || return 1
    id=$(submit --gpus 1 --ram 100M "$(script "echo began")")
    sleep 2
    is "$id" READY && ax why "$id" | grep tried || { ax why "$id"; return 1; }
    # Only a clean card is taken back: what the rows before had there has to be seen gone.
    wait_for 30 "ax node resume $node --gpu 0" || { ax node resume "$node" --gpu 0; return 1; }
    expect "$id" SUCCEEDED
}
try "a drained card is given to nobody until it is resumed" 60 "card free daemon" drained

# Whether MPS can be had here at all, without ax.
mps_works() {
    local rc=1
    mkdir -p "$work/mps"
    (
        export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
        nvidia-cuda-mps-control -d && timeout -k 1 30 "$python" "$work/load.py" take 1
    ) >"$work/mps.out" 2>&1 && grep -q 'took 1' "$work/mps.out" && rc=0
    echo quit | CUDA_MPS_PIPE_DIRECTORY=$work/mps timeout -k 1 10 nvidia-cuda-mps-control >/dev/null 2>&1
    return "$rc"
}
mps_servers() { grep -lsa "nvidia-cuda-mps" $(ours | sed 's,.*,/proc/&/cmdline,') /dev/null; }
mps() {
    local id
    mps_works || { echo "MPS does not work here without ax either: $(tail -1 "$work/mps.out")"; return 77; }
    wait_for 15 '! mps_servers' && clean || return 1
    printf 'queues:\n  - name: default\n  - name: shared\n    mps: true\n' >>"$AX_ROOT/etc/ax/config.yaml"
    ax reload || return 1
    id=$(job -q shared --gpus 1 --mem "${slice}G" --ram $ram -- see take 1 take "$over")
    wait_for 90 "ended $id" || { ax why "$id"; return 1; }
    says "$id" "AX_GPU_ENFORCE=[mps]" && says "$id" "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" && says "$id" "took 1" && says "$id" "out of memory" || { ax why "$id"; return 1; }
    wait_for 60 '! mps_servers' && clean
}
try "a queue with MPS: the server holds a slice, and is gone after it" 150 "free torch daemon mps watch groups" mps

within 15 nvidia-smi -L || : >"$work/out"
if [[ ${lacks[card]:-} = *MIG* ]] || grep -q MIG "$work/out"; then cannot "MIG: there are parts of cards; this check tries whole ones"; else cannot "MIG: ax makes no parts, and there are none"; fi
if [ "$(grep -c '^GPU' "$work/out")" -gt 1 ]; then cannot "several cards in one job, links, NUMA: this check tries the first card only"; else cannot "several cards in one job, links, NUMA: one card"; fi
cannot "Xids and memory errors of the hardware, a card that falls off the bus, a driver that hangs: none can be had on purpose"
