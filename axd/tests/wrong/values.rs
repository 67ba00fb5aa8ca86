//! YAML, and still wrong.

/// File, and the line that answers it.
pub(crate) const WRONG: &[(&str, &str)] = &[
    ("clutser:\n  name: x\n", "c:1:1: unknown key 'clutser'; did you mean 'cluster'?"),
    (
        "policy:\n  retry_cuont: 2\n",
        "c:2:3: unknown key 'retry_cuont' in 'policy'; did you mean 'retry_count'?",
    ),
    (
        "cluster:\n  retry_count: 2\n",
        "c:2:3: unknown key 'retry_count' in 'cluster'; it belongs in 'queues[]' or 'policy'",
    ),
    (
        "cluster:\n  wholly_unknown: 2\n",
        "c:2:3: unknown key 'wholly_unknown' in 'cluster'; the keys here are name, timezone, admins, private_jobs, controllers, heartbeat_interval, heartbeat_timeout",
    ),
    ("limits:\n  - cards: [gpu-01:0]\n", "c:2:5: an entry of limits[] names either a user or a group"),
    (
        "limits:\n  - user: li\n    max_cards: 2\n  - user: li\n    cards: [gpu-01:0]\n",
        "c:4:5: the limit of 'li' is listed twice",
    ),
    (
        "limits:\n  - user: li\n    cards: [vm:x]\n",
        "c:3:13: limits[].cards: 'vm:x' is not a card, as host:index or by UUID",
    ),
    (
        "limits:\n  - user: li\n    max_cards: 0\n",
        "c:3:16: limits[].max_cards: '0' is out of range: 1 to 1000000",
    ),
    ("policy:\n  retry_count: two\n", "c:2:16: policy.retry_count: 'two' is not a whole number"),
    ("policy:\n  retry_count: -1\n", "c:2:16: policy.retry_count: '-1' is not a whole number"),
    ("policy:\n  retry_count: 1.5\n", "c:2:16: policy.retry_count: '1.5' is not a whole number"),
    ("policy:\n  retry_count: 1001\n", "c:2:16: policy.retry_count: '1001' is out of range: 0 to 1000"),
    (
        "policy:\n  retry_count: \"2\"\n",
        "c:2:16: policy.retry_count: '2' in quotes is a text, not a whole number; write 2 without quotes",
    ),
    (
        "policy:\n  retry_count: 99999999999999999999999\n",
        "c:2:16: policy.retry_count: '99999999999999999999999' is out of range: 0 to 1000",
    ),
    ("policy:\n  retry_count: 007\n", "c:2:16: policy.retry_count: '007' is not a whole number"),
    ("policy:\n  retry_count: 0x10\n", "c:2:16: policy.retry_count: '0x10' is not a whole number"),
    (
        "policy:\n  retry_count:\n",
        "c:2:14: policy.retry_count: there is no value; expected a whole number; remove the line to have the default",
    ),
    ("policy:\n  retry_count: [2]\n", "c:2:16: policy.retry_count: a list is not a whole number"),
    ("policy:\n  retry_count: {n: 2}\n", "c:2:16: policy.retry_count: a block is not a whole number"),
    ("policy:\n  retry_count: .inf\n", "c:2:16: policy.retry_count: '.inf' is not a whole number"),
    ("policy:\n  preemption: yes\n", "c:2:15: policy.preemption: 'yes' is not true or false; write true"),
    (
        "policy:\n  preemption: 'true'\n",
        "c:2:15: policy.preemption: 'true' in quotes is a text, not true or false; write true without quotes",
    ),
    ("policy:\n  preemption: maybe\n", "c:2:15: policy.preemption: 'maybe' is not true or false"),
    (
        "policy:\n  scheduler: fairshare\n",
        "c:2:14: policy.scheduler: 'fairshare' is not fifo, fifo_strict or fair_share; did you mean 'fair_share'?",
    ),
    (
        "policy:\n  scheduler: lottery\n",
        "c:2:14: policy.scheduler: 'lottery' is not fifo, fifo_strict or fair_share",
    ),
    (
        "policy:\n  task_timeout: 8 hours\n",
        "c:2:17: policy.task_timeout: '8 hours' is not a length of time (a bare number is seconds; or 90s, 5m, 1h30m, 2d)",
    ),
    ("policy:\n  task_timeout: 0\n", "c:2:17: policy.task_timeout: '0' is out of range: 1s to 366d"),
    ("policy:\n  lease_timeout: 5\n", "c:2:18: policy.lease_timeout: '5' is out of range: 20s to 366d"),
    (
        "policy:\n  default_queue: dafault\n",
        "c:2:18: policy.default_queue: no queue is named 'dafault'; did you mean 'default'?",
    ),
    (
        "policy:\n  default_queue: nowhere\n",
        "c:2:18: policy.default_queue: no queue is named 'nowhere'; the queues are default",
    ),
    (
        "policy: 5\n",
        "c:1:9: policy: '5' is not a block of keys; write 'key: value'; the keys here are scheduler, default_queue, preemption, preempt_priority, preempt_gap, max_preemptions, preempt_budget, reservations, packing, cost, user_share, usage_half_life, learn_length, learnt_ends, learn_memory, grow_memory, task_timeout, retry_count, retry_delay, lease_timeout, kill_wait, max_grace, min_uid, max_queued_per_user, max_running_per_user, max_cards_per_user, max_cpus_per_user, max_ram_per_user, max_stored_per_user, max_processes, scheduling_interval, starvation_bound, idle, idle_end",
    ),
    (
        "policy:\n  - retry_count: 2\n",
        "c:2:3: policy: a list is not a block of keys; write 'key: value'; the keys here are scheduler, default_queue, preemption, preempt_priority, preempt_gap, max_preemptions, preempt_budget, reservations, packing, cost, user_share, usage_half_life, learn_length, learnt_ends, learn_memory, grow_memory, task_timeout, retry_count, retry_delay, lease_timeout, kill_wait, max_grace, min_uid, max_queued_per_user, max_running_per_user, max_cards_per_user, max_cpus_per_user, max_ram_per_user, max_stored_per_user, max_processes, scheduling_interval, starvation_bound, idle, idle_end",
    ),
    (
        "- cluster\n",
        "c:1:1: a list is not a block of keys; write 'key: value'; the keys here are cluster, resources, queues, limits, policy, accounting, paths, mail, hooks, http",
    ),
    (
        "hello\n",
        "c:1:1: 'hello' is not a block of keys; write 'key: value'; the keys here are cluster, resources, queues, limits, policy, accounting, paths, mail, hooks, http",
    ),
    (
        "cluster:\n  heartbeat_timeout: 20\n",
        "c:2:22: cluster.heartbeat_timeout: 20s is shorter than three times the heartbeat_interval of 15s; write at least 45s",
    ),
    (
        "cluster:\n  heartbeat_interval: 30\n",
        "c:2:23: cluster.heartbeat_timeout: 1m is shorter than three times the heartbeat_interval of 30s; write at least 1m30s",
    ),
    ("cluster:\n  name: \"\"\n", "c:2:9: cluster.name: '' is not a name of 1 to 64 printable characters"),
    (
        "cluster:\n  name: \"a\\tb\"\n",
        "c:2:9: cluster.name: 'a\\tb' is not a name of 1 to 64 printable characters",
    ),
    (
        "cluster:\n  timezone: ../../etc/passwd\n",
        "c:2:13: cluster.timezone: '../../etc/passwd' is not a time zone such as Europe/Berlin",
    ),
    (
        "cluster:\n  admins: alice\n",
        "c:2:11: cluster.admins: 'alice' is not a list, each a user or @group; write [alice]",
    ),
    (
        "cluster:\n  admins:\n    - alice\n    - '-rf'\n",
        "c:4:7: cluster.admins: '-rf' is not a user or @group",
    ),
    ("cluster:\n  admins: [alice, [bob]]\n", "c:2:19: cluster.admins: a list is not a user or @group"),
    (
        "cluster:\n  admins: {alice: true}\n",
        "c:2:11: cluster.admins: a block is not a list, each a user or @group",
    ),
    ("cluster:\n  name: a\n  name: b\n", "c:3:3: 'name' is given twice: here and at 2:3"),
    (
        "cluster:\n  name: a\npolicy:\n  kill_wait: 5\ncluster:\n  name: b\n",
        "c:5:1: 'cluster' is given twice: here and at 1:1",
    ),
    (
        "policy:\n  idle: 30m\n  idle_end: 30m\n",
        "c:3:13: policy.idle_end: 30m is not longer than policy.idle of 30m, after which a job is warned",
    ),
    (
        "policy:\n  idle: 30m\nresources:\n  gpu_sample: 1m\n",
        "c:4:15: resources.gpu_sample: cards that are looked at every 1m are never seen to be idle, and policy.idle is set: \
         15s is often enough",
    ),
    (
        "policy:\n  idle_end: 2h\n",
        "c:2:13: policy.idle_end: nobody is ended without a warning: policy.idle says after what time",
    ),
    (
        "policy:\n  retry_count: 1\n  max_retries: 2\n",
        "c:3:3: 'max_retries' is given twice: here and at 2:3 as 'retry_count'",
    ),
    (
        "queues: []\n",
        "c:1:9: queues: there is no queue in the list; remove the line to have one queue named 'default'",
    ),
    (
        "queues:\n",
        "c:1:7: queues: there is no queue in the list; remove the line to have one queue named 'default'",
    ),
    ("queues: default\n", "c:1:9: queues: 'default' is not a list; begin each entry with '- '"),
    ("queues:\n  name: default\n", "c:2:3: queues: a block is not a list; begin each entry with '- '"),
    (
        "queues:\n  - default\n",
        "c:2:5: queues[]: 'default' is not a block of keys; write 'key: value'; the keys here are name, priority, max_running, max_running_per_user, state, default_time, max_time, max_priority, retry_count, default_cpus_per_gpu, default_ram, idempotent, users, groups, preempt, order, lease, restart_slices_every, cards, max_cards, max_cpus, max_ram, max_cards_per_user, max_cpus_per_user, max_ram_per_user, mps",
    ),
    ("queues:\n  - priority: 5\n", "c:2:5: an entry of queues[] has no 'name'"),
    ("queues:\n  -\n", "c:2:4: an entry of queues[] has no 'name'"),
    (
        "queues:\n  - name: a/b\n",
        "c:2:11: queues[].name: 'a/b' is not a queue's name (1 to 64 letters, digits, '.', '_', '-')",
    ),
    ("queues:\n  - name: a\n  - name: b\n  - name: a\n", "c:4:11: queue 'a' is listed twice; first at 2:11"),
    (
        "queues:\n  - name: a\n    max_running: 0\n",
        "c:3:18: queues[].max_running: '0' is out of range: 1 to 1000000",
    ),
    (
        "queues:\n  - name: a\n    priority: 0\n",
        "c:3:15: queues[].priority: '0' is out of range: 1 to 1000000",
    ),
    (
        "queues:\n  - name: a\n    default_time: 2h\n    max_time: 1h\n",
        "c:3:19: queue 'a': default_time 2h is longer than max_time 1h",
    ),
    (
        "queues:\n  - name: a\n    state: close\n",
        "c:3:12: queues[].state: 'close' is not open, stopped or closed; did you mean 'closed'?",
    ),
    (
        "queues:\n  - name: a\n    mem_per_gpu: 80\n",
        "c:3:5: unknown key 'mem_per_gpu' in 'queues[]'; it belongs in 'resources.gpu_nodes[]'",
    ),
    (
        "resources:\n  gpu_nodes:\n    - host: gpu-01\n      gpus: 8\n    - host: GPU-01.lab.example\n      gpus: 4\n",
        "c:5:13: node 'gpu-01' is listed twice; first at 3:13",
    ),
    (
        "resources:\n  gpu_nodes:\n    - host: gpu-01\n",
        "c:3:7: an entry of resources.gpu_nodes[] has no 'gpus'",
    ),
    ("resources:\n  gpu_nodes:\n    - gpus: 8\n", "c:3:7: an entry of resources.gpu_nodes[] has no 'host'"),
    (
        "resources:\n  gpu_nodes:\n    - host: gpu 01\n      gpus: 8\n",
        "c:3:13: resources.gpu_nodes[].host: 'gpu 01' is not a host's name",
    ),
    (
        "resources:\n  gpu_nodes:\n    - host: gpu-01\n      gpus: 8\n      mem_per_gpu: 81920\n",
        "c:5:20: resources.gpu_nodes[].mem_per_gpu: '81920' is out of range: 1MiB to 2TiB; a bare number is GB",
    ),
    (
        "resources:\n  gpu_nodes:\n    - host: gpu-01\n      gpus: 8\n      mem_per_gpu: big\n",
        "c:5:20: resources.gpu_nodes[].mem_per_gpu: 'big' is not a size of GPU memory (a bare number is GB; or 40G, 512M)",
    ),
    (
        "resources:\n  ram: 10\n",
        "c:2:8: resources.ram: '10' is out of range: 64MiB to 1024TiB; a bare number is MB",
    ),
    ("resources:\n  cpus: 0\n", "c:2:9: resources.cpus: '0' is out of range: 1 to 65536"),
    ("resources:\n  gpu_reserve: 100%\n", "c:2:16: resources.gpu_reserve: '100%' is out of range: 0% to 90%"),
    (
        "resources:\n  gpu_reserve: a fifth\n",
        "c:2:16: resources.gpu_reserve: 'a fifth' is not a share in whole percent",
    ),
    ("paths:\n  spool: spool\n", "c:2:10: paths.spool: 'spool' is not a path from the root"),
    ("paths:\n  spool: /var/../etc\n", "c:2:10: paths.spool: '/var/../etc' is not a path from the root"),
    (
        "policy.retry_count: 2\n",
        "c:1:1: unknown key 'policy.retry_count'; write blocks within each other, not with dots",
    ),
    (
        "'queues[].name': x\n",
        "c:1:1: unknown key 'queues[].name'; write blocks within each other, not with dots",
    ),
    ("<<: {a: 1}\n", "c:1:1: unknown key '<<'; merge keys are not read; write the keys out"),
    (
        "policy:\n  schedule_interval_ms: 1\n",
        "c:2:25: policy.scheduling_interval: '1ms' is out of range: 50ms to 1h",
    ),
    (
        "\"\\e[31mred\": 1\n",
        "c:1:1: unknown key '\\x1b[31mred'; the keys here are cluster, resources, queues, limits, policy, accounting, paths, mail, hooks, http",
    ),
    (
        "é: ü\n",
        "c:1:1: unknown key 'é'; the keys here are cluster, resources, queues, limits, policy, accounting, paths, mail, hooks, http",
    ),
    (
        "cluster:\n  heartbeat_interval: 1s\n  heartbeat_interval_ms: 3000\n",
        "c:3:3: 'heartbeat_interval_ms' is given twice: here and at 2:3 as 'heartbeat_interval'",
    ),
];
