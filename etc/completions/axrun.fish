complete -c axrun -s J -l job-name -d 'name of the job; default: the script\'s' -r
complete -c axrun -s q -l queue -l partition -d 'queue to wait in; default: the configured one' -r
complete -c axrun -l priority -d 'priority within the queue; default 50' -r
complete -c axrun -s A -l account -d 'account that the job is booked on' -r
complete -c axrun -l comment -d 'text that is shown with the job' -r
complete -c axrun -s G -l gpus -d 'cards; with --mem slices of N cards' -r
complete -c axrun -l mem -l gpu-mem -d 'GPU memory of each card; a bare number is GB' -r
complete -c axrun -l gpu-mem-hints -d 'settings that keep frameworks to a slice' -r
complete -c axrun -l ram -d 'host memory; a bare number is MB; or \'all\'' -r
complete -c axrun -l ram-per-cpu -d 'host memory for each CPU' -r
complete -c axrun -l ram-per-gpu -d 'host memory for each card' -r
complete -c axrun -s c -l cpus-per-task -d 'CPUs for each task' -r
complete -c axrun -s n -l ntasks -l tasks -d 'tasks on all nodes; default 1 on each' -r
complete -c axrun -l ntasks-per-node -l tasks-per-node -d 'tasks on each node' -r
complete -c axrun -l gpus-per-node -d 'cards on each node' -r
complete -c axrun -l gpus-per-task -d 'cards for each task' -r
complete -c axrun -s N -l nodes -d 'number of nodes, or which ones' -r
complete -c axrun -s w -l nodelist -d 'hosts to run on, such as gpu-[01-04]' -r
complete -c axrun -s x -l exclude -d 'hosts not to run on' -r
complete -c axrun -s C -l constraint -d 'features of the node; &, | and parentheses' -r
complete -c axrun -l exclusive -d 'whole nodes' -r
complete -c axrun -s t -l time -d 'longest running time; a bare number is minutes' -r
complete -c axrun -l estimate -d 'expected running time; learnt when absent' -r
complete -c axrun -l begin -d 'not before 16:00, now+2h, tomorrow, a date' -r
complete -c axrun -l deadline -d 'be done by then, or do not start' -r
complete -c axrun -l window -d 'run only within these daily hours' -r
complete -c axrun -l retry -d 'start again up to N times after a failure' -r
complete -c axrun -l retry-delay -d 'first pause before a retry; it doubles' -r
complete -c axrun -l retry-on -d 'exit codes to retry, such as 1,75,130-140' -r
complete -c axrun -l idempotent -d 'whether a lost attempt may simply start again' -r
complete -c axrun -l lease-timeout -d 'how long its node may be silent' -r
complete -c axrun -l signal -d 'signal to send before the end; TIME in seconds' -r
complete -c axrun -l preempt -d 'if urgent jobs come: requeue, cancel or never' -r
complete -c axrun -l grace -d 'SIGTERM to SIGKILL, at most policy.max_grace' -r
complete -c axrun -s o -l output -d 'file for output; default ax-%j.out' -r -F
complete -c axrun -s e -l error -d 'file for errors; default: with output' -r -F
complete -c axrun -s i -l input -d 'file for input; default /dev/null' -r -F
complete -c axrun -l open-mode -d 'how the output files are opened' -r
complete -c axrun -s D -l chdir -l workdir -d 'folder to run in; default: the current one' -r -f -a "(__fish_complete_directories)"
complete -c axrun -l export -d 'variables to pass: ALL, NONE, NAME, NAME=VALUE' -r
complete -c axrun -l env -d 'a variable for the job; may be repeated' -r
complete -c axrun -l slurm -d 'keep an option of Slurm, without effect' -r
complete -c axrun -l uid -d 'submit as another user; root only' -r -f -a "(__fish_complete_users)"
complete -c axrun -l root -d 'all of ax\'s paths lie under DIR; or AX_ROOT' -r -f -a "(__fish_complete_directories)"
complete -c axrun -l mem-fit -d 'may get less, if its last runs used less'
complete -c axrun -s H -l hold -d 'wait until released'
complete -c axrun -l requeue -d 'may be put back into the queue'
complete -c axrun -l no-requeue -d 'is never put back into the queue'
complete -c axrun -l test-only -d 'check, say when it would start, submit nothing'
complete -c axrun -s Q -l quiet -d 'print nothing but errors'
complete -c axrun -s v -l verbose -d 'say what was understood'
complete -c axrun -s h -l help -d 'print this and exit'
complete -c axrun -s V -l version -d 'print the version and exit'
