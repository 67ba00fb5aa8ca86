//! The socket without our commands: what another language would send, and
//! what nobody should.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::{Cluster, PATIENCE};

impl Cluster {
    /// A connection of this process (root) to the daemon.
    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        stream
    }

    /// One request by hand: status and document.
    pub(crate) fn http(&self, method: &str, target: &str, body: &str) -> (u16, Value) {
        let mut stream = self.connect();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: ax\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body:?}")))
    }

    /// Sends bytes and hangs up; whatever comes back does not matter.
    pub(crate) fn throw(&self, bytes: &[u8]) {
        let mut stream = self.connect();
        // The daemon may hang up first.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let _ = stream.read(&mut [0; 4096]);
    }
}
