//! From fork to exec: the child becomes the submitter and runs the script.
//!
//! The order is a promise, see ax-leases(7): the child is in its control group *first*, then sees that its supervisor
//! lives and reads the fence, then execs; so whoever ends the group ends the child, or the child ends itself.
//! Everything that touches the user's files happens after it has become the user. It may not return: it execs or says
//! why not.

use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ax_core::job::spec::OpenMode;
use ax_core::record::Assignment;
use ax_sys::SysError;
use ax_sys::crash_point;
use ax_sys::process::{self, ChildError, ToParent};
use ax_sys::shared_word::Fence;
use ax_sys::signals::{self, Signal};

use super::script::{self, Runner};

/// What the child needs, made ready by its parent.
pub(crate) struct Launch<'a> {
    /// What to run, as whom and where.
    pub(crate) assignment: &'a Assignment,
    /// The script.
    pub(crate) script: PathBuf,
    /// The word that says who may still start.
    pub(crate) fence: &'a Fence,
    /// The supervisor.
    pub(crate) parent: u32,
    /// Whether users can be changed.
    pub(crate) as_root: bool,
}

type Step<T = ()> = Result<T, ChildError>;

impl Launch<'_> {
    /// Runs the script in place of this process.
    pub(crate) fn run(&self, parent: &ToParent) -> Step<Infallible> {
        self.depend_on_parent()?;
        self.read_fence()?;
        crash_point!("fence read");
        process::begin_as_a_session().map_err(|error| failed("limits", &error))?;
        self.become_user(parent)?;
        process::set_umask(self.assignment.umask);
        self.enter_folder()?;
        let files = self.open_files()?;
        // A lone group and session, so that a job can't stop or signal anything but itself through its terminal.
        process::new_session().map_err(|error| failed("session", &error))?;
        // None is ignored or caught: see `become_supervisor`.
        signals::unblock_all().map_err(|error| failed("signals", &error))?;
        self.execute(&files, parent)
    }

    /// Whoever can't be supervised must not run. The kernel forgets this at a change of user.
    fn depend_on_parent(&self) -> Step {
        process::set_parent_death_signal(Signal::KILL).map_err(|error| failed("supervisor", &error))?;
        if std::os::unix::process::parent_id() == self.parent {
            Ok(())
        } else {
            Err(refused("supervisor", "the supervisor is gone".to_owned()))
        }
    }

    fn read_fence(&self) -> Step {
        let (own, lowest) = (self.assignment.node_epoch, self.fence.lowest_node_epoch());
        if own >= lowest {
            return Ok(());
        }
        Err(refused("fence", format!("node epoch {own} is fenced: the lowest that may start is {lowest}")))
    }

    /// What fails or dies from here on may be the user's doing.
    fn become_user(&self, parent: &ToParent) -> Step {
        let user = &self.assignment.user;
        if self.as_root {
            let groups: Vec<u32> = user.groups.iter().map(|gid| gid.0).collect();
            ax_sys::credentials::become_user(user.uid.0, user.gid.0, &groups, || parent.user_is_next())
                .map_err(|error| failed("user", &error))?;
            return self.depend_on_parent();
        }
        let own = ax_sys::credentials::own().0;
        if own == user.uid.0 {
            parent.user_is_next();
            return Ok(());
        }
        Err(refused("user", format!("become user {}: only root can, this is uid {own}", user.name)))
    }

    fn enter_folder(&self) -> Step {
        let folder = Path::new(&self.assignment.cwd);
        std::env::set_current_dir(folder).map_err(|error| self.path_error("enter", "folder", folder, &error))
    }

    /// Standard input, output and error, opened as the user: on a file server root may be nobody.
    fn open_files(&self) -> Step<[File; 3]> {
        let files = &self.assignment.files;
        let input = Path::new(files.input.as_deref().unwrap_or("/dev/null"));
        let stdin = File::open(input).map_err(|error| self.path_error("open", "input", input, &error))?;
        let stdout = self.open_output("output", Path::new(&files.output))?;
        let stderr = match &files.error {
            Some(path) if *path != files.output => self.open_output("error", Path::new(path))?,
            _ => stdout.try_clone().map_err(|error| other("open error", &error))?,
        };
        Ok([stdin, stdout, stderr])
    }

    fn open_output(&self, what: &'static str, path: &Path) -> Step<File> {
        let open = || {
            let mut options = OpenOptions::new();
            // Always at the end: several processes write there, and none may overwrite another's lines.
            options.append(true).create(true).custom_flags(NO_TERMINAL);
            options.open(path)
        };
        let opened = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(Path::new("/"));
                std::fs::create_dir_all(folder)
                    .map_err(|error| self.path_error("make", "folder", folder, &error))?;
                open()
            }
            other => other,
        };
        let file = opened.map_err(|error| self.path_error("open", what, path, &error))?;
        self.begin_anew(&file).map_err(|error| self.path_error("empty", what, path, &error))?;
        Ok(file)
    }

    /// Devices and pipes have no beginning.
    fn begin_anew(&self, file: &File) -> io::Result<()> {
        if self.assignment.files.open_mode == OpenMode::Append || !file.metadata()?.is_file() {
            return Ok(());
        }
        file.set_len(0)
    }

    fn execute(&self, files: &[File; 3], parent: &ToParent) -> Step<Infallible> {
        let script = text(self.script.as_os_str())?;
        let (program, mut arguments) = match self.runner()? {
            Runner::Itself => (script.clone(), vec![script]),
            Runner::Interpreter { program, argument } => {
                let program = text(OsStr::from_bytes(&program))?;
                let argument = argument.map(|word| text(OsStr::from_bytes(&word))).transpose()?;
                (program.clone(), [program].into_iter().chain(argument).chain([script]).collect())
            }
            Runner::TooLong => {
                return Err(refused(
                    "script",
                    format!("its first line is longer than {} bytes", script::HEAD),
                ));
            }
        };
        for word in &self.assignment.args {
            arguments.push(text(OsStr::new(word))?);
        }
        let environment = self.environment()?;
        let wanted = [(files[0].as_fd(), 0), (files[1].as_fd(), 1), (files[2].as_fd(), 2)];
        process::place(&wanted).map_err(|error| failed("files", &error))?;
        process::close_on_exec_from(3).map_err(|error| failed("files", &error))?;
        crash_point!("exec");
        parent.exec_is_next();
        let error = process::exec(&program, &arguments, &environment);
        let program = Path::new(OsStr::from_bytes(program.as_bytes()));
        let error = if program == self.script && error.kind() == io::ErrorKind::PermissionDenied {
            self.execute_copy(&arguments, &environment).err().unwrap_or(error)
        } else {
            error
        };
        Err(self.exec_error(program, &error))
    }

    /// A program that was submitted lies where nothing may be executed on many machines (`/run` is noexec).
    fn execute_copy(&self, arguments: &[CString], environment: &[CString]) -> ax_sys::Result<Infallible> {
        let script =
            File::open(&self.script).map_err(|error| SysError::new("open", self.script.display(), error))?;
        let copy = ax_sys::memory_file::sealed_copy(&script, "script")?;
        Err(process::exec_fd(&copy, arguments, environment))
    }

    fn exec_error(&self, program: &Path, error: &SysError) -> ChildError {
        let role = if program == self.script { "script" } else { "interpreter" };
        self.path_error("start", role, program, &io::Error::from_raw_os_error(error.errno().unwrap_or(0)))
    }

    /// Reads as the user, who owns the script and could have put anything in its place, a pipe too.
    fn runner(&self) -> Step<Runner> {
        let unreadable = |error: io::Error| self.path_error("read", "script", &self.script, &error);
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(NO_WAITING).open(&self.script).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(refused("script", format!("'{}' is no regular file", self.script.display())));
        }
        let mut head = Vec::new();
        file.take(script::HEAD as u64).read_to_end(&mut head).map_err(unreadable)?;
        Ok(script::runner(&head))
    }

    /// The assignment's, with the marker, and nothing of axd's.
    fn environment(&self) -> Step<Vec<CString>> {
        let marker = &self.assignment.marker;
        let own = self.assignment.environment.iter().filter(|(name, _)| *name != marker.0);
        let line = |(name, value): &(String, String)| text(OsStr::new(&format!("{name}={value}")));
        own.chain([marker]).map(line).collect()
    }

    /// `open output '/home/li/x.out' as user li: Permission denied`.
    fn path_error(&self, verb: &str, what: &str, path: &Path, error: &io::Error) -> ChildError {
        let user = &self.assignment.user.name;
        ChildError {
            step: format!("{verb} {what}"),
            errno: error.raw_os_error().unwrap_or(0),
            text: format!("{verb} {what} '{}' as user {user}: {}", path.display(), words(error)),
        }
    }
}

/// open(2)'s O_NOCTTY and O_NONBLOCK.
const NO_TERMINAL: i32 = ax_sys::path::OFlag::O_NOCTTY.bits();
const NO_WAITING: i32 = ax_sys::path::OFlag::O_NONBLOCK.bits();

fn failed(step: &str, error: &SysError) -> ChildError {
    ChildError::new(step, error)
}

fn refused(step: &str, text: String) -> ChildError {
    ChildError { step: step.to_owned(), errno: 0, text }
}

fn other(step: &str, error: &io::Error) -> ChildError {
    refused(step, format!("{step}: {}", words(error)))
}

/// What the kernel said, without the number that Rust adds.
fn words(error: &io::Error) -> String {
    let whole = error.to_string();
    whole.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A word for the kernel.
fn text(word: &OsStr) -> Step<CString> {
    CString::new(word.as_bytes()).map_err(|_| {
        let start: String = word.to_string_lossy().chars().take(40).collect();
        refused("arguments", format!("'{}…' holds a NUL byte", start.replace('\0', "\\0")))
    })
}
