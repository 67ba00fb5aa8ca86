//! Named points at which a test can let a process die, as if it had lost its power there.
//! With the feature `crash-points` off, which is how ax is installed, [`crash_point!`](crate::crash_point)
//! compiles to nothing. With it on, the point whose name is in `AX_CRASH_POINT` adds its name to the file in
//! `AX_CRASH_LOG` and kills the process that reached it with SIGKILL.

/// Dies here if the environment says so. See [`crate::crash`].
#[cfg(not(feature = "crash-points"))]
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {};
}

/// Dies here if the environment says so. See [`crate::crash`].
#[cfg(feature = "crash-points")]
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        $crate::crash::point($name)
    };
}

/// The variables that name the point, for a process that is started with nothing else of the environment.
#[cfg(feature = "crash-points")]
pub(crate) fn variables() -> impl Iterator<Item = (&'static str, std::ffi::OsString)> {
    ["AX_CRASH_POINT", "AX_CRASH_LOG"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)))
}

/// What [`crash_point!`](crate::crash_point) does where it does something.
#[cfg(feature = "crash-points")]
pub fn point(name: &str) {
    use std::io::Write;
    if std::env::var("AX_CRASH_POINT").ok().as_deref() != Some(name) {
        return;
    }
    if let Ok(log) = std::env::var("AX_CRASH_LOG") {
        // A log that can't be written must not keep the process alive.
        let file = std::fs::OpenOptions::new().append(true).create(true).open(log);
        let _ = file.and_then(|mut file| writeln!(file, "{name}"));
    }
    let own = nix::unistd::getpid().as_raw();
    let _ = crate::process::signal_child(own, crate::signals::Signal::KILL);
}
