//! `ax demo`: a private daemon in a temporary folder, the example scripts as
//! jobs, and the commands that a newcomer would type, with their output. It
//! leaves nothing behind and touches no other daemon.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ax_core::api::{DaemonView, ErrorClass, JobsQuery};
use ax_core::paths::Paths;
use ax_sys::path::Dir;
use ax_sys::pidfd::{PidFd, ProcessIdentity};
use ax_sys::signals::Signal;
use ax_sys::users::{self, User};

use crate::client::Client;
use crate::connect;
use crate::failure::Failure;
use crate::session::Session;

/// A private daemon, a few real jobs, their output and accounts; all cleaned up at the end
#[derive(clap::Args)]
pub(crate) struct Arguments {}

/// What is shown: a script, what is typed after its name, what it is for.
struct Example {
    name: &'static str,
    script: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

const fn example(name: &'static str, script: &'static str) -> Example {
    Example { name, script, environment: &[] }
}

const EXAMPLES: [Example; 6] = [
    example("hello.sh", include_str!("../../../etc/examples/hello.sh")),
    example("primes.py", include_str!("../../../etc/examples/primes.py")),
    example("flaky.sh", include_str!("../../../etc/examples/flaky.sh")),
    example("memory.sh", include_str!("../../../etc/examples/memory.sh")),
    example("children.sh", include_str!("../../../etc/examples/children.sh")),
    Example {
        name: "checkpoint.sh",
        script: include_str!("../../../etc/examples/checkpoint.sh"),
        environment: &[("STEPS", "3")],
    },
];

/// Four CPUs are counted whatever the machine has, so that jobs run side by side.
const CONFIG: &str = "cluster:\n  name: demo\nresources:\n  cpus: 4\npolicy:\n  kill_wait: 2s\n";

/// Wide enough for whole reasons, whatever the screen: a newcomer reads them once.
const WIDTH: usize = 120;

/// The examples take some seconds; a machine in trouble is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(120);

fn failed(doing: &str, error: impl std::fmt::Display) -> Failure {
    Failure::said(ErrorClass::Unavailable, format!("{doing}: {error}"))
}

impl Arguments {
    /// Shows it all.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let mut demo = Demo::set_up()?;
        demo.start(session)?;
        demo.submit_all(session)?;
        demo.watch(session)?;
        demo.look_back(session)?;
        demo.end(session)
    }
}

/// The temporary world.
struct Demo {
    root: PathBuf,
    work: PathBuf,
    programs: PathBuf,
    /// Whom the jobs run as, where that is not ourselves.
    user: Option<User>,
    daemon: Option<Child>,
    jobs: Vec<String>,
}

impl Demo {
    fn set_up() -> Result<Demo, Failure> {
        let own = std::env::current_exe().map_err(|e| failed("cannot find the program's own folder", e))?;
        let programs = own.parent().unwrap_or(Path::new("/")).to_owned();
        let name = ax_sys::random::name().map_err(|e| failed("cannot choose a name", e))?;
        let root = std::env::temp_dir().join(format!("ax-demo-{name}"));
        DirBuilder::new()
            .mode(0o755)
            .create(&root)
            .map_err(|e| failed("cannot make a temporary folder", e))?;
        let work = root.join("work");
        let user = submitter();
        let mut demo = Demo { root, work, programs, user, daemon: None, jobs: Vec::new() };
        demo.write_files().map_err(|e| failed("cannot write the examples", e))?;
        Ok(demo)
    }

    fn write_files(&mut self) -> std::io::Result<()> {
        // Others pass through, but whatever the caller's mask was, jobs find their scripts.
        fs::set_permissions(&self.root, fs::Permissions::from_mode(0o755))?;
        DirBuilder::new().mode(0o755).create(&self.work)?;
        let config = Paths::under(&self.root).config;
        fs::create_dir_all(config.parent().unwrap_or(&self.root))?;
        fs::write(config, CONFIG)?;
        for example in &EXAMPLES {
            fs::write(self.work.join(example.name), example.script)?;
        }
        if let Some(user) = &self.user {
            chown(&self.work, Some(user.uid), Some(user.gid))?;
        }
        Ok(())
    }

    fn start(&mut self, session: &mut Session<'_, '_>) -> Result<(), Failure> {
        say(session, &format!("A private daemon, everything of it in {}:\n", self.root.display()))?;
        let log =
            fs::File::create(self.root.join("axd.out")).map_err(|e| failed("cannot write the log", e))?;
        let mut command = Command::new(self.programs.join("axd"));
        command.arg("--root").arg(&self.root).arg("--no-cards").stdin(Stdio::null()).stdout(Stdio::null());
        command.env_remove("AX_ROOT").env_remove("AX_SOCKET").stderr(log);
        shown(session, &format!("axd --root {} --no-cards &", self.root.display()))?;
        self.daemon = Some(command.spawn().map_err(|e| failed("cannot start axd", e))?);
        let status = self.wait_for_daemon()?;
        for what in &status.missing {
            say(session, &format!("Missing here: {what}.\n"))?;
        }
        if ax_sys::credentials::own().0 != 0 {
            say(session, "Missing here: root. Jobs run as you alone.\n")?;
        } else if let Some(user) = &self.user {
            say(session, &format!("Jobs are submitted, and run, as {}.\n", user.name))?;
        }
        Ok(())
    }

    fn client(&self) -> Client {
        Client::new(connect::find(Some(&self.root), &Default::default()))
    }

    fn wait_for_daemon(&mut self) -> Result<DaemonView, Failure> {
        let start = Instant::now();
        loop {
            if let Ok(status) = self.client().get("/api/v1/status") {
                return Ok(status);
            }
            let ended = self.daemon.as_mut().is_none_or(|d| !matches!(d.try_wait(), Ok(None)));
            if ended || start.elapsed() > PATIENCE {
                let said = fs::read_to_string(self.root.join("axd.out")).unwrap_or_default();
                return Err(failed("axd did not start", said.trim()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs one of our commands as the submitter and shows what it says.
    fn type_in(&self, session: &mut Session<'_, '_>, words: &[&str]) -> Result<String, Failure> {
        self.type_with(session, words, &[])
    }

    fn type_with(
        &self,
        session: &mut Session<'_, '_>,
        words: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<String, Failure> {
        let [program, arguments @ ..] = words else { return Ok(String::new()) };
        let prefix: String = environment.iter().map(|(n, v)| format!("{n}={v} ")).collect();
        shown(session, &format!("{prefix}{}", words.join(" ")))?;
        let mut command = Command::new(self.programs.join(program));
        command.args(arguments).current_dir(&self.work).env("AX_ROOT", &self.root).env_remove("AX_SOCKET");
        command.env("COLUMNS", session.screen.width.max(WIDTH).to_string()).envs(environment.iter().copied());
        if let Some(user) = &self.user {
            command.uid(user.uid).gid(user.gid).env("HOME", &self.work).env("USER", &user.name);
        }
        let output = command.output().map_err(|e| failed(&format!("cannot run {program}"), e))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        say(session, &text)?;
        Ok(text)
    }

    fn submit_all(&mut self, session: &mut Session<'_, '_>) -> Result<(), Failure> {
        say(session, "\nSix scripts go in:\n")?;
        for example in &EXAMPLES {
            let said = self.type_with(session, &["axbatch", example.name], example.environment)?;
            self.jobs.extend(said.split_whitespace().find(|w| w.starts_with("ax-")).map(str::to_owned));
        }
        Ok(())
    }

    fn watch(&self, session: &mut Session<'_, '_>) -> Result<(), Failure> {
        say(session, "\nThe queue, with a reason for each job that waits:\n")?;
        self.type_in(session, &["ax", "queue"])?;
        let start = Instant::now();
        while !self.client().jobs(&JobsQuery::default())?.jobs.is_empty() {
            if start.elapsed() > PATIENCE {
                return Err(failed("the jobs did not end", "they are still there after two minutes"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Output, reasons, accounts.
    fn look_back(&self, session: &mut Session<'_, '_>) -> Result<(), Failure> {
        say(session, "\nAll have ended. What they wrote:\n")?;
        for job in &self.jobs {
            self.type_in(session, &["ax", "logs", job])?;
        }
        say(session, "\nWhy the third started, failed, and was started again:\n")?;
        if let Some(third) = self.jobs.get(2) {
            self.type_in(session, &["ax", "why", third])?;
        }
        say(session, "\nTheir accounts:\n")?;
        self.type_in(session, &["ax", "acct"])?;
        Ok(())
    }

    fn end(mut self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        self.clean_up();
        let gone = !self.root.exists();
        let last = match gone {
            true => "\nThe daemon is stopped and everything of it removed. Next: man axbatch, man ax.\n"
                .to_owned(),
            false => {
                format!("\nThe daemon is stopped; {} could not be removed whole.\n", self.root.display())
            }
        };
        say(session, &last)?;
        Ok(0)
    }

    fn clean_up(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let asked = PidFd::open(daemon.id().cast_signed()).and_then(|d| d.send_signal(Signal::TERM));
            if asked.is_err() {
                let _ = daemon.kill();
            }
            let _ = daemon.wait();
        }
        self.end_watchdog();
        // What can't be removed is named at the end.
        let _ = fs::remove_dir_all(&self.root);
    }

    /// The watchdog outlives its daemon by design; this one has nothing to watch any more.
    fn end_watchdog(&self) -> Option<()> {
        let run = Paths::under(&self.root).run;
        let written = Dir::open(run).and_then(|run| run.read("watchdog.lock", 64)).ok()?;
        let identity: ProcessIdentity = String::from_utf8(written).ok()?.trim().parse().ok()?;
        let process = PidFd::open_checked(identity).ok()??;
        process.send_signal(Signal::TERM).ok()?;
        process.wait_ended(Duration::from_secs(5)).ok()?;
        Some(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.clean_up();
    }
}

/// As root, somebody without rights: whoever called sudo, or nobody.
fn submitter() -> Option<User> {
    if ax_sys::credentials::own().0 != 0 {
        return None;
    }
    let caller = std::env::var("SUDO_USER").ok().filter(|name| name != "root");
    let known = |name: &str| users::by_name(name).ok().flatten();
    caller.and_then(|name| known(&name)).or_else(|| known("nobody"))
}

fn say(session: &mut Session<'_, '_>, text: &str) -> Result<(), Failure> {
    session.world.out.write_all(text.as_bytes())?;
    session.world.out.flush()?;
    Ok(())
}

/// A command as it would be typed.
fn shown(session: &mut Session<'_, '_>, command: &str) -> Result<(), Failure> {
    say(session, &format!("\n$ {command}\n"))
}
