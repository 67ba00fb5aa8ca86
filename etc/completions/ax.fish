# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_ax_global_optspecs
    string join \n root= h/help V/version
end

function __fish_ax_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_ax_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_ax_using_subcommand
    set -l cmd (__fish_ax_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c ax -n "__fish_ax_needs_command" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_needs_command" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_needs_command" -s V -l version -d 'Print version'
complete -c ax -n "__fish_ax_needs_command" -f -a "queue" -d 'List the waiting and running jobs, with reasons and expected starts'
complete -c ax -n "__fish_ax_needs_command" -f -a "status" -d 'Show everything about jobs'
complete -c ax -n "__fish_ax_needs_command" -f -a "logs" -d 'Print a job\'s output'
complete -c ax -n "__fish_ax_needs_command" -f -a "cancel" -d 'End jobs, or send them a signal'
complete -c ax -n "__fish_ax_needs_command" -f -a "hold" -d 'Keep waiting jobs from being started'
complete -c ax -n "__fish_ax_needs_command" -f -a "release" -d 'Let held jobs be started'
complete -c ax -n "__fish_ax_needs_command" -f -a "suspend" -d 'Freeze the processes of running jobs; not supported yet'
complete -c ax -n "__fish_ax_needs_command" -f -a "resume" -d 'Let suspended jobs go on; not supported yet'
complete -c ax -n "__fish_ax_needs_command" -f -a "resolve" -d 'Say what became of a job that ax cannot know about'
complete -c ax -n "__fish_ax_needs_command" -f -a "keep" -d 'Leave idle cards to their jobs for some time'
complete -c ax -n "__fish_ax_needs_command" -f -a "checkpointed" -d 'From within a job: tell that its work so far is safe'
complete -c ax -n "__fish_ax_needs_command" -f -a "update" -d 'Change waiting jobs, or the time limit of running ones'
complete -c ax -n "__fish_ax_needs_command" -f -a "why" -d 'Explain what was decided about a job'
complete -c ax -n "__fish_ax_needs_command" -f -a "acct" -d 'List finished jobs and what they used'
complete -c ax -n "__fish_ax_needs_command" -f -a "eff" -d 'Show what jobs used of what they held, and what to ask for next time'
complete -c ax -n "__fish_ax_needs_command" -f -a "resource" -d 'Show every card: owner, slices, memory, load, health'
complete -c ax -n "__fish_ax_needs_command" -f -a "top" -d 'Show cards and jobs live, on the whole screen'
complete -c ax -n "__fish_ax_needs_command" -f -a "node" -d 'Show the nodes'
complete -c ax -n "__fish_ax_needs_command" -f -a "reload" -d 'Read the configuration again: all of it or, on an error, none of it'
complete -c ax -n "__fish_ax_needs_command" -f -a "completions" -d 'Print the completion file of a shell'
complete -c ax -n "__fish_ax_needs_command" -f -a "demo" -d 'A private daemon, a few real jobs, their output and accounts; all cleaned up at the end'
complete -c ax -n "__fish_ax_needs_command" -f -a "submit" -d 'Submit a command'
complete -c ax -n "__fish_ax_using_subcommand queue" -s j -l jobs -d 'The same as naming them' -r
complete -c ax -n "__fish_ax_using_subcommand queue" -s u -l user -d 'Only jobs of these users' -r
complete -c ax -n "__fish_ax_using_subcommand queue" -s q -l queue -d 'Only jobs in these queues' -r
complete -c ax -n "__fish_ax_using_subcommand queue" -s t -l state -d 'Only jobs in these states, in ax\'s words or Slurm\'s' -r
complete -c ax -n "__fish_ax_using_subcommand queue" -s n -l name -d 'Only jobs of these names' -r
complete -c ax -n "__fish_ax_using_subcommand queue" -l limit -d 'Only the first N jobs' -r
complete -c ax -n "__fish_ax_using_subcommand queue" -s o -l format -d 'These columns, separated by commas' -r
complete -c ax -n "__fish_ax_using_subcommand queue" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand queue" -l me -d 'Only your own jobs'
complete -c ax -n "__fish_ax_using_subcommand queue" -l all -d 'Also jobs that ended within the last 300 seconds'
complete -c ax -n "__fish_ax_using_subcommand queue" -s l -l long -l wide -d 'More columns, and nothing is cut'
complete -c ax -n "__fish_ax_using_subcommand queue" -l start -d 'Only waiting jobs, in the order of their expected starts: when, and what that rests on'
complete -c ax -n "__fish_ax_using_subcommand queue" -l noheader -d 'Without the line of titles'
complete -c ax -n "__fish_ax_using_subcommand queue" -l json -d 'One JSON document with everything'
complete -c ax -n "__fish_ax_using_subcommand queue" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand status" -l job-id -d 'The same as naming the job' -r
complete -c ax -n "__fish_ax_using_subcommand status" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand status" -l json -d 'One JSON document: a list with an object a job'
complete -c ax -n "__fish_ax_using_subcommand status" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand logs" -l attempt -d 'Of this attempt, from 1; without it the last' -r
complete -c ax -n "__fish_ax_using_subcommand logs" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand logs" -s f -l follow -d 'Go on until the job has ended'
complete -c ax -n "__fish_ax_using_subcommand logs" -l err -d 'The errors, of a job that writes them into a file of their own'
complete -c ax -n "__fish_ax_using_subcommand logs" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand cancel" -l job-id -d 'The same as naming the job' -r
complete -c ax -n "__fish_ax_using_subcommand cancel" -s s -l signal -d 'Send this signal and do no more' -r
complete -c ax -n "__fish_ax_using_subcommand cancel" -s u -l user -d 'Only jobs of these users' -r
complete -c ax -n "__fish_ax_using_subcommand cancel" -s q -l queue -d 'Only jobs in these queues' -r
complete -c ax -n "__fish_ax_using_subcommand cancel" -s t -l state -d 'Only jobs in these states, in ax\'s words or Slurm\'s' -r
complete -c ax -n "__fish_ax_using_subcommand cancel" -s n -l name -d 'Only jobs of these names' -r
complete -c ax -n "__fish_ax_using_subcommand cancel" -l why -d 'Why, for the record' -r
complete -c ax -n "__fish_ax_using_subcommand cancel" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand cancel" -l json -d 'One JSON document: what became of each job'
complete -c ax -n "__fish_ax_using_subcommand cancel" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand hold" -l why -d 'Why, for the record' -r
complete -c ax -n "__fish_ax_using_subcommand hold" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand hold" -l json -d 'One JSON document: what became of each job'
complete -c ax -n "__fish_ax_using_subcommand hold" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand release" -l why -d 'Why, for the record' -r
complete -c ax -n "__fish_ax_using_subcommand release" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand release" -l json -d 'One JSON document: what became of each job'
complete -c ax -n "__fish_ax_using_subcommand release" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand suspend" -l why -d 'Why, for the record' -r
complete -c ax -n "__fish_ax_using_subcommand suspend" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand suspend" -l json -d 'One JSON document: what became of each job'
complete -c ax -n "__fish_ax_using_subcommand suspend" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand resume" -l why -d 'Why, for the record' -r
complete -c ax -n "__fish_ax_using_subcommand resume" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand resume" -l json -d 'One JSON document: what became of each job'
complete -c ax -n "__fish_ax_using_subcommand resume" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand resolve" -l why -d 'Why, for the record' -r
complete -c ax -n "__fish_ax_using_subcommand resolve" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand resolve" -l json -d 'One JSON document: what became of each job'
complete -c ax -n "__fish_ax_using_subcommand resolve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ax -n "__fish_ax_using_subcommand keep" -l for -d 'For how long from now: 30m, 2h, 1d; at most 7d' -r
complete -c ax -n "__fish_ax_using_subcommand keep" -l why -d 'Why, for the record' -r
complete -c ax -n "__fish_ax_using_subcommand keep" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand keep" -l json -d 'One JSON document: what became of each job'
complete -c ax -n "__fish_ax_using_subcommand keep" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand checkpointed" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand checkpointed" -l json -d 'One JSON document: what became of it'
complete -c ax -n "__fish_ax_using_subcommand checkpointed" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand update" -l why -d 'Why, for the record' -r
complete -c ax -n "__fish_ax_using_subcommand update" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand update" -l json -d 'One JSON document: what became of each job'
complete -c ax -n "__fish_ax_using_subcommand update" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ax -n "__fish_ax_using_subcommand why" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand why" -l json -d 'One JSON document: the list of decisions'
complete -c ax -n "__fish_ax_using_subcommand why" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand acct" -s j -l jobs -d 'The same as naming them' -r
complete -c ax -n "__fish_ax_using_subcommand acct" -s u -l user -d 'Only jobs of these users' -r
complete -c ax -n "__fish_ax_using_subcommand acct" -s q -l queue -d 'Only jobs in these queues' -r
complete -c ax -n "__fish_ax_using_subcommand acct" -s t -l state -d 'Only jobs in these states, in ax\'s words or Slurm\'s' -r
complete -c ax -n "__fish_ax_using_subcommand acct" -s n -l name -d 'Only jobs of these names' -r
complete -c ax -n "__fish_ax_using_subcommand acct" -s S -l since -d 'Ended at or after: yesterday, 7d (ago), 14:30, 2026-11-29, 2026-11-29T14:30; default: today, or ever for named jobs' -r
complete -c ax -n "__fish_ax_using_subcommand acct" -s E -l until -d 'Ended before' -r
complete -c ax -n "__fish_ax_using_subcommand acct" -l limit -d 'At most N jobs' -r
complete -c ax -n "__fish_ax_using_subcommand acct" -s o -l format -d 'These columns, separated by commas' -r
complete -c ax -n "__fish_ax_using_subcommand acct" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand acct" -l me -d 'Only your own jobs'
complete -c ax -n "__fish_ax_using_subcommand acct" -s l -l long -l wide -d 'More columns, and nothing is cut'
complete -c ax -n "__fish_ax_using_subcommand acct" -l noheader -d 'Without the line of titles and the line of sums'
complete -c ax -n "__fish_ax_using_subcommand acct" -l json -d 'One JSON document with everything'
complete -c ax -n "__fish_ax_using_subcommand acct" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand eff" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand eff" -l json -d 'One JSON document: a list with an object a job'
complete -c ax -n "__fish_ax_using_subcommand eff" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand resource" -s o -l format -d 'These columns, separated by commas' -r
complete -c ax -n "__fish_ax_using_subcommand resource" -l history -d 'Memory and load over time as small charts, an hour back or as long as SPAN says (30m, 6h, 7d)' -r
complete -c ax -n "__fish_ax_using_subcommand resource" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand resource" -s l -l long -l wide -d 'More columns, and nothing is cut'
complete -c ax -n "__fish_ax_using_subcommand resource" -l noheader -d 'Without the line of titles'
complete -c ax -n "__fish_ax_using_subcommand resource" -l json -d 'One JSON document with everything'
complete -c ax -n "__fish_ax_using_subcommand resource" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand top" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand top" -s m -l mine -d 'Only my own jobs'
complete -c ax -n "__fish_ax_using_subcommand top" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand node; and not __fish_seen_subcommand_from list show drain resume" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand node; and not __fish_seen_subcommand_from list show drain resume" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand node; and not __fish_seen_subcommand_from list show drain resume" -f -a "list" -d 'List the nodes and what of them is in use'
complete -c ax -n "__fish_ax_using_subcommand node; and not __fish_seen_subcommand_from list show drain resume" -f -a "show" -d 'Show one node with its cards and what was decided about them'
complete -c ax -n "__fish_ax_using_subcommand node; and not __fish_seen_subcommand_from list show drain resume" -f -a "drain" -d 'Start nothing more on a node or card; what runs goes on'
complete -c ax -n "__fish_ax_using_subcommand node; and not __fish_seen_subcommand_from list show drain resume" -f -a "resume" -d 'Give a drained node or card out again, a card only if it was clean when it was last looked at'
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from list" -s o -l format -d 'These columns, separated by commas' -r
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from list" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from list" -s l -l long -l wide -d 'Nothing is cut'
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from list" -l noheader -d 'Without the line of titles'
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from list" -l json -d 'One JSON document with everything'
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from show" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from show" -l json -d 'One JSON document with everything'
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from drain" -l gpu -d 'Only this card of it, by number or UUID' -r
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from drain" -l why -d 'Why, for the record and for whoever waits' -r
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from drain" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from drain" -l json -d 'One JSON document: what was done'
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from drain" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from resume" -l gpu -d 'Only this card of it, by number or UUID' -r
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from resume" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from resume" -l json -d 'One JSON document: what was done'
complete -c ax -n "__fish_ax_using_subcommand node; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand reload" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand reload" -l json -d 'One JSON document: changes and warnings'
complete -c ax -n "__fish_ax_using_subcommand reload" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand completions" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ax -n "__fish_ax_using_subcommand demo" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand demo" -s h -l help -d 'Print help'
complete -c ax -n "__fish_ax_using_subcommand submit" -s J -l job-name -d 'name of the job; default: the script\'s' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s q -l queue -l partition -d 'queue to wait in; default: the configured one' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l priority -d 'priority within the queue; default 50' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s A -l account -d 'account that the job is booked on' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l comment -d 'text that is shown with the job' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s G -l gpus -d 'cards; with --mem slices of N cards' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l mem -l gpu-mem -d 'GPU memory of each card; a bare number is GB' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l gpu-mem-hints -d 'settings that keep frameworks to a slice' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l ram -d 'host memory; a bare number is MB; or \'all\'' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l ram-per-cpu -d 'host memory for each CPU' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l ram-per-gpu -d 'host memory for each card' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s c -l cpus-per-task -d 'CPUs for each task' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s n -l ntasks -l tasks -d 'tasks on all nodes; default 1 on each' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l ntasks-per-node -l tasks-per-node -d 'tasks on each node' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l gpus-per-node -d 'cards on each node' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l gpus-per-task -d 'cards for each task' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s N -l nodes -d 'number of nodes, or which ones' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s w -l nodelist -d 'hosts to run on, such as gpu-[01-04]' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s x -l exclude -d 'hosts not to run on' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s C -l constraint -d 'features of the node; &, | and parentheses' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l exclusive -d 'whole nodes' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s t -l time -d 'longest running time; a bare number is minutes' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l estimate -d 'expected running time; learnt when absent' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l begin -d 'not before 16:00, now+2h, tomorrow, a date' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l deadline -d 'be done by then, or do not start' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l window -d 'run only within these daily hours' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l retry -d 'start again up to N times after a failure' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l retry-delay -d 'first pause before a retry; it doubles' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l retry-on -d 'exit codes to retry, such as 1,75,130-140' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l idempotent -d 'whether a lost attempt may simply start again' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l lease-timeout -d 'how long its node may be silent' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l signal -d 'signal to send before the end; TIME in seconds' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l preempt -d 'if urgent jobs come: requeue, cancel or never' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l grace -d 'SIGTERM to SIGKILL, at most policy.max_grace' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s o -l output -d 'file for output; default ax-%j.out' -r -F
complete -c ax -n "__fish_ax_using_subcommand submit" -s e -l error -d 'file for errors; default: with output' -r -F
complete -c ax -n "__fish_ax_using_subcommand submit" -s i -l input -d 'file for input; default /dev/null' -r -F
complete -c ax -n "__fish_ax_using_subcommand submit" -l open-mode -d 'how the output files are opened' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -s D -l chdir -l workdir -d 'folder to run in; default: the current one' -r -f -a "(__fish_complete_directories)"
complete -c ax -n "__fish_ax_using_subcommand submit" -l export -d 'variables to pass: ALL, NONE, NAME, NAME=VALUE' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l env -d 'a variable for the job; may be repeated' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l slurm -d 'keep an option of Slurm, without effect' -r
complete -c ax -n "__fish_ax_using_subcommand submit" -l cmd -d 'the command to run, for ax submit' -r -f -a "(__fish_complete_command)"
complete -c ax -n "__fish_ax_using_subcommand submit" -l uid -d 'submit as another user; root only' -r -f -a "(__fish_complete_users)"
complete -c ax -n "__fish_ax_using_subcommand submit" -l root -d 'Talk to the daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c ax -n "__fish_ax_using_subcommand submit" -l mem-fit -d 'may get less, if its last runs used less'
complete -c ax -n "__fish_ax_using_subcommand submit" -s H -l hold -d 'wait until released'
complete -c ax -n "__fish_ax_using_subcommand submit" -l requeue -d 'may be put back into the queue'
complete -c ax -n "__fish_ax_using_subcommand submit" -l no-requeue -d 'is never put back into the queue'
complete -c ax -n "__fish_ax_using_subcommand submit" -s W -l wait -d 'wait for the job and exit with its status'
complete -c ax -n "__fish_ax_using_subcommand submit" -l test-only -d 'check, say when it would start, submit nothing'
complete -c ax -n "__fish_ax_using_subcommand submit" -l parsable -d 'print the id alone'
complete -c ax -n "__fish_ax_using_subcommand submit" -s Q -l quiet -d 'print nothing but errors'
complete -c ax -n "__fish_ax_using_subcommand submit" -s v -l verbose -d 'say what was understood'
complete -c ax -n "__fish_ax_using_subcommand submit" -l json -d 'print the answer as JSON'
complete -c ax -n "__fish_ax_using_subcommand submit" -s h -l help -d 'print this and exit'
complete -c ax -n "__fish_ax_using_subcommand submit" -s V -l version -d 'print the version and exit'
