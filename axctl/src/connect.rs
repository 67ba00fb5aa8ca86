//! Which daemon a command talks to, and whether it may be trusted: only root's and the
//! caller's own. Also names the spool of that daemon, for submissions while it is down.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ax_core::api::ErrorClass;
use ax_core::paths::Paths;
use ax_sys::socket;
use thiserror::Error;

use crate::shown::plain;
use crate::world::Variables;

/// How long a connection may take: a daemon accepts at once unless it hangs.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// A daemon's places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its socket.
    pub socket: PathBuf,
    /// All its places; unknown where only the socket was named.
    pub paths: Option<Paths>,
}

/// No connection to a daemon.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Nobody listens.
    #[error("no daemon answers at {} ({}); start it{start}, or name another with {other}", .socket.display(), plain(.why))]
    Down {
        /// Where.
        socket: PathBuf,
        /// With which command it would be started, as part of a sentence.
        start: String,
        /// How another would be named here.
        other: &'static str,
        /// What the system says.
        why: io::Error,
    },
    /// Somebody hangs.
    #[error("axd does not accept connections at {} for {} s; see its log", .socket.display(), CONNECT_PATIENCE.as_secs())]
    Hangs {
        /// Where.
        socket: PathBuf,
    },
    /// The socket may not be used.
    #[error("cannot use {}: {}", .socket.display(), plain(.why))]
    Refused {
        /// Where.
        socket: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// A stranger listens.
    #[error("the socket {} is served by uid {uid}, neither root nor you: not trusted", .socket.display())]
    Stranger {
        /// Where.
        socket: PathBuf,
        /// Who.
        uid: u32,
    },
}

impl ConnectError {
    /// Hence the exit code.
    pub fn class(&self) -> ErrorClass {
        match self {
            ConnectError::Down { .. } | ConnectError::Hangs { .. } => ErrorClass::Unavailable,
            ConnectError::Refused { .. } | ConnectError::Stranger { .. } => ErrorClass::NoPermission,
        }
    }
}

/// The daemon to talk to: `--root` or `AX_ROOT`, `AX_SOCKET`, the system's if its socket is there, the user's own.
pub fn find(root: Option<&Path>, vars: &Variables) -> Place {
    if let Some(root) = root.or_else(|| vars.get("AX_ROOT").map(Path::new)) {
        return Place::of(Paths::under(root));
    }
    if let Some(socket) = vars.get("AX_SOCKET") {
        return Place { socket: socket.into(), paths: None };
    }
    prefer(Paths::system(), own_paths(vars))
}

/// The system's daemon unless only the user's own is there. While neither listens, the spool that is there decides.
fn prefer(system: Paths, own: Option<Paths>) -> Place {
    let listens = |paths: &Paths| paths.socket().exists();
    let spools = |paths: &Paths| paths.incoming().exists();
    let own = own.filter(|own| !listens(&system) && (listens(own) || (!spools(&system) && spools(own))));
    Place::of(own.unwrap_or(system))
}

/// Places of a user's own daemon, by the XDG rules; `None` without a home.
fn own_paths(vars: &Variables) -> Option<Paths> {
    let home = vars.get("HOME").map(PathBuf::from)?;
    let folder = |name: &str, default: &str| vars.get(name).map_or_else(|| home.join(default), PathBuf::from);
    let runtime = vars.get("XDG_RUNTIME_DIR").map_or_else(
        // cron sets no such variable, yet the folder is there while the user lingers.
        || PathBuf::from(format!("/run/user/{}", ax_sys::credentials::own().0)),
        PathBuf::from,
    );
    let config = folder("XDG_CONFIG_HOME", ".config");
    Some(Paths::of_user(&config, &folder("XDG_STATE_HOME", ".local/state"), &runtime))
}

impl Place {
    fn of(paths: Paths) -> Place {
        Place { socket: paths.socket(), paths: Some(paths) }
    }

    /// A connection to this daemon.
    ///
    /// # Errors
    /// When nobody listens, or somebody who must not be trusted.
    pub fn connect(&self) -> Result<UnixStream, ConnectError> {
        let stream = self.connect_in_time()?;
        let peer = ax_sys::credentials::peer(&stream).map_err(|error| ConnectError::Refused {
            socket: self.socket.clone(),
            why: io::Error::other(error.to_string()),
        })?;
        if !is_trusted(peer.uid) {
            return Err(ConnectError::Stranger { socket: self.socket.clone(), uid: peer.uid });
        }
        Ok(stream)
    }

    fn connect_in_time(&self) -> Result<UnixStream, ConnectError> {
        socket::connect_within(&self.socket, CONNECT_PATIENCE).map_err(|why| match why.kind() {
            io::ErrorKind::WouldBlock => ConnectError::Hangs { socket: self.socket.clone() },
            _ => self.name(why),
        })
    }

    fn name(&self, why: io::Error) -> ConnectError {
        let socket = self.socket.clone();
        match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                // A root that is named goes before AX_SOCKET.
                let other = if self.root().is_some() { "--root" } else { "--root or AX_SOCKET" };
                ConnectError::Down { socket, start: self.start(), other, why }
            }
            _ => ConnectError::Refused { socket, why },
        }
    }

    /// The folder under which all of its files are, if that was named.
    fn root(&self) -> Option<&Path> {
        let paths = self.paths.as_ref()?;
        let root = paths.run.ancestors().nth(2).filter(|root| Paths::under(root) == *paths);
        root.filter(|_| *paths != Paths::system())
    }

    /// What starts this daemon: systemd only the system's, and only where it runs.
    fn start(&self) -> String {
        let Some(paths) = &self.paths else { return String::new() };
        match self.root() {
            Some(root) => format!(" with 'axd --root {}'", root.display()),
            None if *paths == Paths::system() && Path::new("/run/systemd/system").is_dir() => {
                " with 'systemctl start axd'".to_owned()
            }
            None => " with 'axd'".to_owned(),
        }
    }
}

/// Whether a user may stand behind a socket or a spool.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == ax_sys::credentials::own().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn vars(pairs: &[(&str, &str)]) -> Variables {
        Variables(pairs.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))).collect())
    }

    #[test]
    fn a_root_beats_a_socket_beats_the_system() {
        let both = vars(&[("AX_ROOT", "/r"), ("AX_SOCKET", "/s"), ("HOME", "/h")]);
        assert_eq!(find(Some(Path::new("/o")), &both).socket, Path::new("/o/run/ax/axd.sock"));
        assert_eq!(find(None, &both).socket, Path::new("/r/run/ax/axd.sock"));
        let named = find(None, &vars(&[("AX_SOCKET", "/s")]));
        assert_eq!(named, Place { socket: "/s".into(), paths: None });
    }

    #[test]
    fn the_user_s_own_daemon_is_found_when_it_alone_is_there() {
        let folder = test_kit::TempDir::new();
        let (system, own) = (Paths::under(&folder.join("system")), Paths::under(&folder.join("own")));
        let chosen = || prefer(system.clone(), Some(own.clone())).paths.unwrap();
        assert_eq!(chosen(), system);
        std::fs::create_dir_all(own.incoming()).unwrap();
        assert_eq!(chosen(), own);
        std::fs::create_dir_all(system.incoming()).unwrap();
        assert_eq!(chosen(), system);
        std::fs::create_dir_all(&own.run).unwrap();
        std::fs::write(own.socket(), "").unwrap();
        assert_eq!(chosen(), own);
        std::fs::create_dir_all(&system.run).unwrap();
        std::fs::write(system.socket(), "").unwrap();
        assert_eq!(chosen(), system);
    }

    #[test]
    fn an_absent_daemon_is_down() {
        let place = Place { socket: "/nonexistent/axd.sock".into(), paths: None };
        let error = place.connect().unwrap_err();
        assert!(matches!(error, ConnectError::Down { .. }));
        assert_eq!(error.class(), ErrorClass::Unavailable);
    }

    #[test]
    fn the_way_to_start_it_is_that_daemon_s() {
        let home = [("HOME", "/nonexistent"), ("XDG_RUNTIME_DIR", "/nonexistent")];
        let own = Place::of(own_paths(&vars(&home)).unwrap());
        let socket = Place { socket: "/s".into(), paths: None };
        assert_eq!(find(Some(Path::new("/srv/trial")), &vars(&[])).start(), " with 'axd --root /srv/trial'");
        assert_eq!((own.start().as_str(), socket.start().as_str()), (" with 'axd'", ""));
        let system = Place::of(Paths::system()).start();
        assert!([" with 'axd'", " with 'systemctl start axd'"].contains(&system.as_str()), "{system}");
        let hint = |place: &Place| place.connect().unwrap_err().to_string();
        let trial = hint(&find(Some(Path::new("/nonexistent")), &vars(&[])));
        assert!(trial.ends_with("or name another with --root"), "{trial}");
        let socket = hint(&find(None, &vars(&[("AX_SOCKET", "/nonexistent/s")])));
        assert!(socket.ends_with("or name another with --root or AX_SOCKET"), "{socket}");
    }
}
