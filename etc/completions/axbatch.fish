complete -c axbatch -s J -l job-name -d 'name of the job; default: the script\'s' -r
complete -c axbatch -s q -l queue -l partition -d 'queue to wait in; default: the configured one' -r
complete -c axbatch -l priority -d 'priority within the queue; default 50' -r
complete -c axbatch -s A -l account -d 'account that the job is booked on' -r
complete -c axbatch -l comment -d 'text that is shown with the job' -r
complete -c axbatch -s G -l gpus -d 'cards; with --mem slices of N cards' -r
complete -c axbatch -l mem -l gpu-mem -d 'GPU memory of each card; a bare number is GB' -r
complete -c axbatch -l gpu-mem-hints -d 'settings that keep frameworks to a slice' -r
complete -c axbatch -l ram -d 'host memory; a bare number is MB; or \'all\'' -r
complete -c axbatch -l ram-per-cpu -d 'host memory for each CPU' -r
complete -c axbatch -l ram-per-gpu -d 'host memory for each card' -r
complete -c axbatch -s c -l cpus-per-task -d 'CPUs for each task' -r
complete -c axbatch -s n -l ntasks -l tasks -d 'tasks on all nodes; default 1 on each' -r
complete -c axbatch -l ntasks-per-node -l tasks-per-node -d 'tasks on each node' -r
complete -c axbatch -l gpus-per-node -d 'cards on each node' -r
complete -c axbatch -l gpus-per-task -d 'cards for each task' -r
complete -c axbatch -s N -l nodes -d 'number of nodes, or which ones' -r
complete -c axbatch -s w -l nodelist -d 'hosts to run on, such as gpu-[01-04]' -r
complete -c axbatch -s x -l exclude -d 'hosts not to run on' -r
complete -c axbatch -s C -l constraint -d 'features of the node; &, | and parentheses' -r
complete -c axbatch -l exclusive -d 'whole nodes' -r
complete -c axbatch -s t -l time -d 'longest running time; a bare number is minutes' -r
complete -c axbatch -l estimate -d 'expected running time; learnt when absent' -r
complete -c axbatch -l begin -d 'not before 16:00, now+2h, tomorrow, a date' -r
complete -c axbatch -l deadline -d 'be done by then, or do not start' -r
complete -c axbatch -l window -d 'run only within these daily hours' -r
complete -c axbatch -l retry -d 'start again up to N times after a failure' -r
complete -c axbatch -l retry-delay -d 'first pause before a retry; it doubles' -r
complete -c axbatch -l retry-on -d 'exit codes to retry, such as 1,75,130-140' -r
complete -c axbatch -l idempotent -d 'whether a lost attempt may simply start again' -r
complete -c axbatch -l lease-timeout -d 'how long its node may be silent' -r
complete -c axbatch -l signal -d 'signal to send before the end; TIME in seconds' -r
complete -c axbatch -l preempt -d 'if urgent jobs come: requeue, cancel or never' -r
complete -c axbatch -l grace -d 'SIGTERM to SIGKILL, at most policy.max_grace' -r
complete -c axbatch -s o -l output -d 'file for output; default ax-%j.out' -r -F
complete -c axbatch -s e -l error -d 'file for errors; default: with output' -r -F
complete -c axbatch -s i -l input -d 'file for input; default /dev/null' -r -F
complete -c axbatch -l open-mode -d 'how the output files are opened' -r
complete -c axbatch -s D -l chdir -l workdir -d 'folder to run in; default: the current one' -r -f -a "(__fish_complete_directories)"
complete -c axbatch -l export -d 'variables to pass: ALL, NONE, NAME, NAME=VALUE' -r
complete -c axbatch -l env -d 'a variable for the job; may be repeated' -r
complete -c axbatch -l slurm -d 'keep an option of Slurm, without effect' -r
complete -c axbatch -l wrap -d 'make a script of a shell command' -r -f -a "(__fish_complete_command)"
complete -c axbatch -l uid -d 'submit as another user; root only' -r -f -a "(__fish_complete_users)"
complete -c axbatch -l root -d 'all of ax\'s paths lie under DIR; or AX_ROOT' -r -f -a "(__fish_complete_directories)"
complete -c axbatch -l mem-fit -d 'may get less, if its last runs used less'
complete -c axbatch -s H -l hold -d 'wait until released'
complete -c axbatch -l requeue -d 'may be put back into the queue'
complete -c axbatch -l no-requeue -d 'is never put back into the queue'
complete -c axbatch -s W -l wait -d 'wait for the job and exit with its status'
complete -c axbatch -l test-only -d 'check, say when it would start, submit nothing'
complete -c axbatch -l parsable -d 'print the id alone'
complete -c axbatch -s Q -l quiet -d 'print nothing but errors'
complete -c axbatch -s v -l verbose -d 'say what was understood'
complete -c axbatch -l json -d 'print the answer as JSON'
complete -c axbatch -s h -l help -d 'print this and exit'
complete -c axbatch -s V -l version -d 'print the version and exit'
