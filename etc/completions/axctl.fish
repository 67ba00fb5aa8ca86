# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_axctl_global_optspecs
    string join \n root= h/help V/version
end

function __fish_axctl_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_axctl_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_axctl_using_subcommand
    set -l cmd (__fish_axctl_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c axctl -n "__fish_axctl_needs_command" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_needs_command" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_needs_command" -s V -l version -d 'Print version'
complete -c axctl -n "__fish_axctl_needs_command" -f -a "check" -d 'Check a script, or a configuration (*.yaml), without a daemon'
complete -c axctl -n "__fish_axctl_needs_command" -f -a "stop" -d 'Stop the daemon; jobs go on without it'
complete -c axctl -n "__fish_axctl_needs_command" -f -a "simulate" -d 'Run a workload through the scheduler, without machines, and say how it went'
complete -c axctl -n "__fish_axctl_needs_command" -f -a "diag" -d 'Show how the scheduler fares: passes, queues, places that are kept, forecasts'
complete -c axctl -n "__fish_axctl_needs_command" -f -a "db" -d 'The database of jobs'
complete -c axctl -n "__fish_axctl_using_subcommand check" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand check" -l json -d 'One JSON document'
complete -c axctl -n "__fish_axctl_using_subcommand check" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand stop" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand stop" -l jobs -d 'End the running jobs too, and stop when they are over'
complete -c axctl -n "__fish_axctl_using_subcommand stop" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l nodes -d 'The machines, each as CARDSxMB, such as 2x24000,2x48000; else those that the workload names' -r
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l profile -d 'A shipped configuration: fair or throughput' -r
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l config -d 'A configuration; without it that of the recorded daemon, or that without a file' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l compare -d 'Two configurations, or names of profiles, side by side' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l tick -d 'Decide only every so many seconds, not at every event' -r
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l load_s -d 'A job uses its true memory so many seconds after its start; without it memory never runs out' -r
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l history -d 'What ran before, as a workload of its own: it is known how long its jobs took and what they used' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l horizon -d 'Count as done in time what ended so many seconds after the first arrival' -r
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l limit -d 'Only the first N jobs of the file' -r
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l svg -d 'Also draw what ran when on which card; with --compare a picture of each, NAME-1.svg and NAME-2.svg' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l replay -d 'The workload is what `axctl db events --json` printed (`-`: standard input): is all decided again as it was?'
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -l json -d 'One JSON document; times are seconds'
complete -c axctl -n "__fish_axctl_using_subcommand simulate" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand diag" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand diag" -l json -d 'One JSON document with everything'
complete -c axctl -n "__fish_axctl_using_subcommand diag" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check events adopt" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check events adopt" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check events adopt" -f -a "backup" -d 'Copy the database while the daemon runs'
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check events adopt" -f -a "check" -d 'Check that the database is whole'
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check events adopt" -f -a "events" -d 'Print what happened and what was decided, as it was recorded'
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check events adopt" -f -a "adopt" -d 'Let an empty database go on with the numbers of a used spool'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from backup" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from backup" -l json -d 'One JSON document'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from backup" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from check" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from check" -l json -d 'One JSON document'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from events" -l from -d 'At or after: today, yesterday, 7d (ago), 14:30, 2026-11-29, 2026-11-29T14:30' -r
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from events" -l to -d 'Before' -r
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from events" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from events" -l json -d 'One JSON document: a list with an object an event'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from events" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from adopt" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from adopt" -l json -d 'One JSON document'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from adopt" -s h -l help -d 'Print help'
