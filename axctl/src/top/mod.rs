//! `ax top`: cards and jobs, live, on the whole screen. The loop: keys, signals, the daemon's answers and a clock
//! change the state, and the state is drawn.

mod feed;
mod keys;
mod log;
mod screen;
mod state;
mod view;

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ax_core::id::JobId;
use ax_sys::signals::{Signal, SignalWatch};
use ax_sys::socket::{Event, Interest, Poller, Waker};
use ax_sys::terminal;

use crate::chart::Strokes;
use crate::client::Client;
use crate::failure::Failure;
use crate::session::Session;
use crate::when::Clock;
use crate::world::World;
use feed::{Ask, Feed, News};
use screen::FullScreen;
use state::{Mode, State, Wish};
use view::Canvas;

const KEYS: u64 = 0;
const SIGNALS: u64 = 1;
const FEED: u64 = 2;

/// An escape is a key of its own if nothing follows for so long.
const ESCAPE: Duration = Duration::from_millis(50);
/// How often the output that is followed is read.
const LOG: Duration = Duration::from_secs(1);

/// Show cards and jobs live, on the whole screen
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only jobs in which this text is: id, name, user, queue, state or node
    #[arg(value_name = "TEXT")]
    filter: Option<String>,
    /// Only my own jobs
    #[arg(short, long)]
    mine: bool,
}

impl Arguments {
    /// Runs until it is left.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let usable = session.screen.terminal && session.world.input_is_terminal;
        if !usable || session.world.vars.get("TERM").is_none_or(|term| term == "dumb") {
            let line =
                "ax top fills a terminal, and this is none; 'ax resource' and 'ax queue' tell the same";
            return Err(Failure::usage(line));
        }
        let user = session.world.vars.get("USER").map(|user| user.to_string_lossy().into_owned());
        let state = State {
            filter: self.filter.clone().unwrap_or_default(),
            only: user.clone().filter(|_| self.mine),
            user,
            ..State::default()
        };
        let strokes = Strokes::of(&session.world.vars);
        let failed = |what: String| Failure::said(ax_core::api::ErrorClass::Unavailable, what);
        // Before the thread, so that it has them blocked as well.
        let signals = SignalWatch::new(&WATCHED).map_err(|error| failed(error.to_string()))?;
        let mut parts = Parts::new(session.client.clone(), &signals).map_err(failed)?;
        let screen = FullScreen::enter(session.world.out).map_err(failed)?;
        let mut top = Top {
            state,
            screen,
            colour: session.screen.colour,
            strokes,
            clock: session.clock,
            keys: Vec::new(),
            log_read: None,
            output: None,
        };
        let ended = top.run(&mut parts, &signals, session.world);
        top.screen.leave(session.world.out);
        ended.map_err(|error| failed(error.to_string()))
    }
}

const WATCHED: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::TSTP, Signal::WINCH];

/// What is waited for.
struct Parts {
    poller: Poller,
    waker: Arc<Waker>,
    feed: Feed,
}

impl Parts {
    fn new(client: Client, signals: &SignalWatch) -> Result<Parts, String> {
        let build = || {
            let poller = Poller::new()?;
            let waker = Arc::new(Waker::new()?);
            poller.add(&io::stdin(), KEYS, Interest::READ)?;
            poller.add(signals, SIGNALS, Interest::READ)?;
            poller.add(&*waker, FEED, Interest::READ)?;
            Ok::<_, ax_sys::SysError>((poller, waker))
        };
        let (poller, waker) = build().map_err(|error| error.to_string())?;
        let feed = Feed::start(client, &waker).map_err(|error| error.to_string())?;
        Ok(Parts { poller, waker, feed })
    }
}

/// Everything that lives as long as the screen is taken.
struct Top {
    state: State,
    screen: FullScreen,
    colour: bool,
    strokes: Strokes,
    clock: Clock,
    /// Bytes of a key that is not whole yet.
    keys: Vec<u8>,
    log_read: Option<Instant>,
    /// The job and file whose output is followed.
    output: Option<(JobId, String)>,
}

impl Top {
    fn run(&mut self, parts: &mut Parts, signals: &SignalWatch, world: &mut World<'_>) -> io::Result<u8> {
        let mut ready: Vec<Event> = Vec::new();
        loop {
            self.draw(world.out)?;
            parts.poller.wait(&mut ready, self.patience()).map_err(io::Error::other)?;
            let mut came = false;
            for event in std::mem::take(&mut ready) {
                match event.token {
                    KEYS => {
                        came = true;
                        if !self.read_keys(world.input)? {
                            return Ok(0);
                        }
                    }
                    SIGNALS => {
                        if let Some(code) = self.read_signals(signals, world.out)? {
                            return Ok(code);
                        }
                    }
                    _ => {
                        parts.waker.drain().map_err(io::Error::other)?;
                        self.read_news(&parts.feed);
                    }
                }
            }
            for key in keys::read(&mut self.keys, !came) {
                if let Some(wish) = self.state.press(key)
                    && self.grant(wish, &parts.feed, world.out)?
                {
                    return Ok(0);
                }
            }
            self.read_log();
        }
    }

    /// How long nothing has to happen.
    fn patience(&self) -> Option<Duration> {
        let log = matches!(self.state.mode, Mode::Log(_)).then_some(LOG);
        let escape = (!self.keys.is_empty()).then_some(ESCAPE);
        log.into_iter().chain(escape).min()
    }

    fn draw(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let size = terminal_size::terminal_size_of(io::stdout());
        let (width, height) = size.map_or((80, 24), |(width, height)| (width.0, height.0));
        let canvas = Canvas {
            width: usize::from(width),
            height: usize::from(height).max(1),
            colour: self.colour,
            strokes: self.strokes,
        };
        let lines = view::draw(&mut self.state, &canvas, &self.clock);
        self.screen.show(lines, out)
    }

    /// Whether there is anybody who could press keys.
    fn read_keys(&mut self, input: &mut dyn Read) -> io::Result<bool> {
        // As large as the buffer of standard input, so that nothing stays in that.
        let mut bytes = [0; 8192];
        match input.read(&mut bytes) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.keys.extend_from_slice(&bytes[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            // The terminal has hung up.
            Err(_) if !io::stdin().is_terminal() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The exit code, if one of them ends the program.
    fn read_signals(&mut self, signals: &SignalWatch, out: &mut dyn Write) -> io::Result<Option<u8>> {
        while let Some(signal) = signals.next().map_err(io::Error::other)? {
            match signal {
                Signal::WINCH => self.screen.forget(),
                Signal::TSTP => self.halt(out)?,
                other => return Ok(Some(u8::try_from(128 + other.number()).unwrap_or(u8::MAX))),
            }
        }
        Ok(None)
    }

    fn halt(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.screen.leave(out);
        terminal::halt().map_err(io::Error::other)?;
        self.screen.enter_again(out)
    }

    fn read_news(&mut self, feed: &Feed) {
        while let Some(news) = feed.next() {
            match news {
                News::Seen(seen) => self.state.take(*seen),
                News::Said(said) => self.state.said = Some(said),
                News::Output(job, found) => {
                    if self.state.mode != Mode::Log(job) {
                        continue;
                    }
                    match found {
                        Ok(path) => {
                            self.state.log_path = Some(path.clone());
                            (self.output, self.log_read) = (Some((job, path)), None);
                        }
                        Err(why) => (self.state.mode, self.state.said) = (Mode::List, Some(why)),
                    }
                }
            }
        }
    }

    /// Whether it is to be left.
    fn grant(&mut self, wish: Wish, feed: &Feed, out: &mut dyn Write) -> io::Result<bool> {
        match wish {
            Wish::Quit => return Ok(true),
            Wish::Halt => self.halt(out)?,
            Wish::Redraw => self.screen.forget(),
            Wish::Cancel(job) => {
                self.state.said = Some(format!("{job}: being cancelled"));
                feed.ask(Ask::Cancel(job));
            }
            Wish::Follow(job) => feed.ask(Ask::Output(job)),
        }
        Ok(false)
    }

    fn read_log(&mut self) {
        let Some((job, path)) = &self.output else { return };
        if self.state.mode != Mode::Log(*job) {
            self.output = None;
            return;
        }
        if self.log_read.is_some_and(|at| at.elapsed() < LOG) {
            return;
        }
        self.log_read = Some(Instant::now());
        self.state.log = log::tail(Path::new(path)).unwrap_or_else(|why| vec![why]);
    }
}
