//! The socket's name: who may take it, and from whom.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::harness::{Harness, directory, patient};
use axd::api::server::{BindError, Server};

fn bind(path: &Path) -> Result<Server, BindError> {
    Server::bind(path, 0o666, patient(), 0)
}

#[test]
fn everybody_may_connect_and_nobody_else_may_serve() {
    let harness = Harness::start(patient());
    let mode = fs::metadata(harness.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    let error = bind(&harness.socket()).unwrap_err();
    assert!(matches!(error, BindError::InUse { .. }), "{error}");
    assert_eq!(harness.get("/echo").status, 200, "the first one serves on");
}

#[test]
fn takes_the_place_of_a_dead_daemon() {
    let path = directory().join("axd.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = bind(&path).unwrap();
    assert!(path.exists());
    drop(server);
    assert!(!path.exists(), "the name goes with its daemon");
    drop(bind(&path).unwrap());
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn leaves_what_belongs_to_others() {
    let directory = directory();
    let path = directory.join("axd.sock");
    fs::write(&path, "precious").unwrap();
    let error = bind(&path).unwrap_err();
    assert!(matches!(error, BindError::Foreign { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/run/other.sock", &path).unwrap();
    assert!(matches!(bind(&path), Err(BindError::Foreign { .. })));
    fs::remove_file(&path).unwrap();
    if ax_sys::credentials::own().0 == 0 {
        drop(UnixListener::bind(&path).unwrap());
        chown(&path, Some(65534), None).unwrap();
        assert!(matches!(bind(&path), Err(BindError::Foreign { .. })));
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn refuses_directories_that_others_can_change() {
    let directory = directory();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o1777)).unwrap();
    let error = bind(&directory.join("axd.sock")).unwrap_err();
    assert!(matches!(error, BindError::UnsafeDirectory { .. }), "{error}");
    assert!(matches!(bind(&directory.join("absent/axd.sock")), Err(BindError::File { .. })));
    fs::remove_dir_all(directory).unwrap();
}
