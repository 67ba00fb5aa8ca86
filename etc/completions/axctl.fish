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
complete -c axctl -n "__fish_axctl_needs_command" -f -a "db" -d 'The database of jobs'
complete -c axctl -n "__fish_axctl_using_subcommand check" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand check" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check adopt" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check adopt" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check adopt" -f -a "backup" -d 'Copy the database while the daemon runs'
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check adopt" -f -a "check" -d 'Check that the database is whole'
complete -c axctl -n "__fish_axctl_using_subcommand db; and not __fish_seen_subcommand_from backup check adopt" -f -a "adopt" -d 'Let an empty database go on with the numbers of a used spool'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from backup" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from backup" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from check" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from adopt" -l root -d 'The daemon whose files lie under DIR (also AX_ROOT)' -r -F
complete -c axctl -n "__fish_axctl_using_subcommand db; and __fish_seen_subcommand_from adopt" -s h -l help -d 'Print help'
