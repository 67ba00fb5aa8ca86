//! Users and groups in a configuration that the machine does not know: a typing error there would lock somebody out
//! without a word.

use ax_core::config::{Config, Finding};
use ax_sys::users;

/// One warning for each name that the name service does not know. It may take as long as that takes.
pub(crate) fn unknown(config: &Config) -> Vec<Finding> {
    let admins = config.cluster.admins.iter().map(|name| ("cluster.admins", name.as_str()));
    let rules = config.queues.iter().flat_map(|queue| {
        let users = queue.users.iter().map(|name| ("queues[].users", name.clone()));
        let groups = queue.groups.iter().map(|name| ("queues[].groups", format!("@{name}")));
        users.chain(groups)
    });
    let limits = config.limits.iter().flat_map(|limit| {
        let users = limit.user.iter().map(|name| ("limits[].user", name.clone()));
        let groups = limit.group.iter().map(|name| ("limits[].group", format!("@{name}")));
        users.chain(groups)
    });
    let rules: Vec<(&str, String)> =
        admins.map(|(key, name)| (key, name.to_owned())).chain(rules).chain(limits).collect();
    rules
        .iter()
        .filter_map(|(key, name)| Some(Finding::warning(None, format!("{key}: {}", lacks(name)?))))
        .collect()
}

/// Where the name service can't answer, nothing is said.
fn lacks(name: &str) -> Option<String> {
    let (what, name, known) = match name.strip_prefix('@') {
        Some(group) => ("group", group, users::group_by_name(group).map(|found| found.is_some())),
        None => ("user", name, users::by_name(name).map(|found| found.is_some())),
    };
    matches!(known, Ok(false)).then(|| format!("there is no {what} '{name}' on this machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_there_is_named_with_the_key() {
        let text = "cluster: {admins: [root, nobody-of-that-name, '@root', '@no-such-group']}\n\
                    queues: [{name: a, users: [daemon, ghost], groups: [root, ghosts]}]\n\
                    limits: [{user: spook, max_cards: 1}, {group: root, max_cards: 1}]\n";
        let config = super::super::interpret(text.as_bytes()).unwrap().config;
        let lines: Vec<String> = unknown(&config).iter().map(|finding| finding.line("c")).collect();
        let expected = [
            "c: warning: cluster.admins: there is no user 'nobody-of-that-name' on this machine",
            "c: warning: cluster.admins: there is no group 'no-such-group' on this machine",
            "c: warning: queues[].users: there is no user 'ghost' on this machine",
            "c: warning: queues[].groups: there is no group 'ghosts' on this machine",
            "c: warning: limits[].user: there is no user 'spook' on this machine",
        ];
        assert_eq!(lines, expected);
    }
}
