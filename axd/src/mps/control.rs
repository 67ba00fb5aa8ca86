//! Runs NVIDIA's MPS control program: to start a card's daemon, and to ask it something. The program runs as the
//! user, in the daemon's group, with a deadline.

use std::convert::Infallible;
use std::ffi::{CString, NulError};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ax_core::gpu::visible;
use ax_core::record::UserRecord;
use ax_sys::cgroup::JobGroup;
use ax_sys::pidfd::Exit;
use ax_sys::process::{self, ChildError, ChildStart, ToParent};
use ax_sys::{SysError, memory_file, signals};

use super::Order;
use super::error::{ControlError, MpsError, Result};
use super::seat::Seat;

/// How long the daemon may take until it answers, and how long a question may take.
const START: Duration = Duration::from_secs(8);
const ANSWER: Duration = Duration::from_secs(3);

/// So much of its output is kept.
const MOST_SAID: u64 = 4096;

/// Starts the daemon, and waits until clients can find it.
pub(super) fn start(seat: &Seat, order: &Order) -> Result<()> {
    let end = Instant::now() + START;
    let group = seat.furnish(order)?;
    run(seat, order, &group, &Question { words: &["-d"], input: "", limit: START })?;
    ax_sys::crash_point!("mps started");
    // A client that looks for it earlier silently runs without MPS.
    while !seat.is_open()? {
        if !seat.lives()? {
            return Err(MpsError::EndedAtOnce);
        }
        if Instant::now() > end {
            return Err(MpsError::NotOpened(seat.door()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Asks the daemon a question.
pub(super) fn ask(seat: &Seat, order: &Order, question: &str) -> Result<()> {
    let group = seat.group()?.ok_or(MpsError::NoDaemon)?;
    run(seat, order, &group, &Question { words: &[], input: question, limit: ANSWER })?;
    Ok(())
}

/// What the program is run for.
struct Question<'a> {
    /// Its arguments.
    words: &'a [&'a str],
    /// What it reads.
    input: &'a str,
    /// How long it may take.
    limit: Duration,
}

/// Runs the program.
fn run(
    seat: &Seat,
    order: &Order,
    group: &JobGroup,
    question: &Question<'_>,
) -> std::result::Result<(), ControlError> {
    let Question { words, input, limit } = *question;
    let program = || order.control.display().to_string();
    let failed = |source: SysError| ControlError::System { program: program(), source };
    let (said, reads) = files(input).map_err(failed)?;
    let child = Program::new(order, words)?;
    let join = group.join_handle().map_err(failed)?;
    let parent = std::process::id();
    let started = process::fork_child(Some(&join), |to_parent| {
        // Closes the child's copy of the lock: while a copy is open no other process gets to the card, even if we
        // have died.
        seat.let_go();
        child.run(to_parent, parent, &reads, &said)
    });
    let started = started.map_err(failed)?;
    let late = || {
        let _ = started.process.send_signal(signals::Signal::KILL);
        ControlError::Late { program: program(), limit }
    };
    let end = Instant::now() + limit;
    match started.report.wait(limit).map_err(failed)?.ok_or_else(late)? {
        ChildStart::Executed => {}
        ChildStart::Failed(error, _) => {
            return Err(ControlError::NotExecuted { program: program(), why: error.text });
        }
        ChildStart::Died(_) => return Err(ControlError::NotStarted { program: program() }),
    }
    if !started.process.wait_ended(end.saturating_duration_since(Instant::now())).map_err(failed)? {
        return Err(late());
    }
    match started.process.reap().map_err(failed)? {
        Some(Exit::Code(0)) => Ok(()),
        how => {
            let (words, said) = (words.join(" "), why(said, how));
            Err(ControlError::Refused { program: program(), words, said })
        }
    }
}

/// What the program's output goes to, and what it reads.
fn files(input: &str) -> std::result::Result<(File, File), SysError> {
    let said = memory_file::empty("mps-said")?;
    let mut reads = memory_file::empty("mps-reads")?;
    let written = reads.write_all(input.as_bytes()).and_then(|()| reads.rewind());
    written.map_err(|error| SysError::new("write", "to a file in memory", error))?;
    Ok((said, reads))
}

/// The reason of a failure: its output, or how it ended.
fn why(mut said: File, how: Option<Exit>) -> String {
    let mut text = Vec::new();
    let read = said.rewind().and_then(|()| said.take(MOST_SAID).read_to_end(&mut text));
    let text = ax_core::text::escaped(String::from_utf8_lossy(&text).trim());
    if read.is_ok() && !text.is_empty() {
        return text;
    }
    match how {
        Some(Exit::Code(code)) => format!("it exited with {code} and said nothing"),
        Some(Exit::Signal { number, .. }) => format!("it was ended by signal {number}"),
        None => "how it ended is not known".to_owned(),
    }
}

/// What the child needs, prepared before the fork.
struct Program<'a> {
    user: &'a UserRecord,
    program: CString,
    words: Vec<CString>,
    environment: Vec<CString>,
}

impl Program<'_> {
    fn new<'a>(order: &'a Order, words: &[&str]) -> std::result::Result<Program<'a>, NulError> {
        let text = |bytes: &[u8]| CString::new(bytes);
        let program = text(order.control.as_os_str().as_bytes())?;
        let words = [Ok(program.clone())].into_iter().chain(words.iter().map(|word| text(word.as_bytes())));
        // The server's program lies beside it.
        let folder = order.control.parent().unwrap_or(Path::new("/"));
        let mut variables = vec![
            ("PATH", format!("{}:/usr/bin:/bin", folder.display())),
            // Here and in the jobs the card is named by UUID: numbers would be counted differently.
            ("CUDA_VISIBLE_DEVICES", order.card.clone()),
        ];
        variables.extend(visible::mps_folders(&order.folder.to_string_lossy()));
        let environment = variables.iter().map(|(name, value)| text(format!("{name}={value}").as_bytes()));
        Ok(Program {
            user: &order.user,
            program,
            words: words.collect::<std::result::Result<_, _>>()?,
            environment: environment.collect::<std::result::Result<_, _>>()?,
        })
    }

    fn run(
        &self,
        to_parent: &ToParent,
        parent: u32,
        reads: &File,
        said: &File,
    ) -> std::result::Result<Infallible, ChildError> {
        let failed = |step: &'static str| move |error: SysError| ChildError::new(step, &error);
        process::begin_as_a_session().map_err(failed("limits"))?;
        let user = self.user;
        if ax_sys::credentials::own().0 == 0 {
            let groups: Vec<u32> = user.groups.iter().map(|gid| gid.0).collect();
            ax_sys::credentials::become_user(user.uid.0, user.gid.0, &groups, || to_parent.user_is_next())
                .map_err(failed("user"))?;
        }
        // If no process waits for it, it must not go on. A daemon that it starts is no child of ours, and stays.
        process::set_parent_death_signal(signals::Signal::KILL).map_err(failed("parent"))?;
        if std::os::unix::process::parent_id() != parent {
            return Err(ChildError { step: "parent".to_owned(), errno: 0, text: "it is gone".to_owned() });
        }
        process::change_dir(Path::new("/")).map_err(failed("folder"))?;
        process::new_session().map_err(failed("session"))?;
        process::place(&[(reads.as_fd(), 0), (said.as_fd(), 1), (said.as_fd(), 2)])
            .map_err(failed("files"))?;
        process::close_on_exec_from(3).map_err(failed("files"))?;
        signals::unblock_all().map_err(failed("signals"))?;
        to_parent.exec_is_next();
        Err(ChildError::new("exec", &process::exec(&self.program, &self.words, &self.environment)))
    }
}
