//! A submission under a key of its own, asked as often as the test likes: what
//! `axbatch` does, taken apart. Root asks on behalf of the user.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ax_core::api::{SubmitAnswer, SubmitRequest};
use ax_core::id::SubmissionKey;

use crate::cluster::{Cluster, User, wait_for};

/// A submission that can be repeated.
#[derive(Debug, Clone)]
pub(crate) struct Keyed {
    socket: PathBuf,
    request: Vec<u8>,
}

/// What came of asking once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The job is accepted.
    Accepted(String),
    /// An answer, but not yes: status and text.
    Refused(u16, String),
    /// No daemon, or one that went away before it had answered.
    Unanswered,
}

impl Keyed {
    /// A submission of this user; `chance` makes the key.
    pub(crate) fn new(cluster: &Cluster, user: User, chance: u64, options: &[&str], script: &str) -> Keyed {
        Keyed::of(&cluster.socket(), &cluster.root, &cluster.home(user), user, chance, options, script)
    }

    /// The same, from what does not change while the daemon comes and goes.
    pub(crate) fn of(
        socket: &Path,
        root: &Path,
        home: &Path,
        user: User,
        chance: u64,
        options: &[&str],
        script: &str,
    ) -> Keyed {
        let mut bytes = [7; 10];
        bytes[..8].copy_from_slice(&chance.to_le_bytes());
        let home = home.to_string_lossy().into_owned();
        let root = root.to_string_lossy().into_owned();
        let environment = [("HOME", home.as_str()), ("AX_ROOT", &root), ("PATH", "/usr/bin:/bin")];
        let request = SubmitRequest {
            key: Some(SubmissionKey::new(1, bytes)),
            options: options.iter().map(|&word| word.to_owned()).collect(),
            script: Some(script.to_owned()),
            environment: environment.map(|(n, v)| (n.to_owned(), v.to_owned())).into_iter().collect(),
            cwd: Some(home.clone()),
            uid: Some(user.uid),
            named: BTreeMap::new(),
            ..SubmitRequest::default()
        };
        Keyed { socket: socket.to_owned(), request: serde_json::to_vec(&request).unwrap() }
    }

    /// Asks once.
    pub(crate) fn ask(&self) -> Asked {
        let Some((status, body)) = exchange(&self.socket, &self.request) else { return Asked::Unanswered };
        match serde_json::from_slice::<SubmitAnswer>(&body) {
            Ok(SubmitAnswer { id: Some(id), .. }) if status < 300 => Asked::Accepted(id.to_string()),
            _ => Asked::Refused(status, String::from_utf8_lossy(&body).into_owned()),
        }
    }

    /// Asks until it is accepted; the job's id.
    pub(crate) fn insist(&self) -> String {
        let mut last = Asked::Unanswered;
        wait_for("a submission to be accepted", || {
            last = self.ask();
            matches!(last, Asked::Accepted(_))
        });
        let Asked::Accepted(id) = last else { unreachable!("waited for") };
        id
    }
}

fn exchange(socket: &Path, body: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: ax\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let status = String::from_utf8_lossy(&answer[..end]).split(' ').nth(1)?.parse().ok()?;
    Some((status, answer[end + 4..].to_vec()))
}
