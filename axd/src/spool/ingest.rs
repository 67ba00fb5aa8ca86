//! The spool's thread: waits for hints, verdicts and the time of the next rescan, takes files, and does with each
//! drop what the loop said. Each step is short, whatever lies in the folders.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use ax_core::id::Uid;
use ax_core::paths::Paths;
use ax_core::time::WallTime;
use ax_sys::SysError;
use ax_sys::clock;
use ax_sys::crash_point;
use ax_sys::path::Names;

use super::aging::Aging;
use super::complaints::{Complaints, Say};
use super::folder::Folder;
use super::name::{TakenName, shown};
use super::places::Places;
use super::refuse::refuse;
use super::take::Taken;
use super::users::Users;
use super::watch::{Hints, Inotify};
use super::watched::Watched;
use super::{News, TakenId, Verdict};
use crate::log::{Level, Line};

/// What reaches the thread.
#[derive(Debug)]
pub(super) enum Message {
    /// There are hints.
    Look,
    /// What is to become of a drop.
    Verdict(TakenId, Verdict),
}

/// Tells the loop; false when it is gone.
pub(super) type Tell = Box<dyn Fn(News) -> bool + Send>;

/// The thread's state.
pub(super) struct Ingest {
    pub(super) paths: Paths,
    inbox: Receiver<Message>,
    tell: Tell,
    hints: Hints,
    pub(super) watched: Watched,
    /// The folders of the spool, as far as they could be opened.
    pub(super) places: Option<Places>,
    /// Folders of `incoming/` to look at, in this order.
    pub(super) due: Due,
    /// Those that were begun and hold more.
    pub(super) begun: BTreeMap<OsString, Folder>,
    pub(super) users: Users,
    pub(super) under_way: BTreeMap<TakenId, Taken>,
    /// Files in `taken/` that are to be submitted, not for the first time.
    pub(super) left: VecDeque<TakenName>,
    /// How far the rescan has come.
    pub(super) walk: Option<(Names, Instant)>,
    pub(super) next_rescan: Instant,
    aging: Aging,
    complaints: Complaints,
    /// The loop is gone.
    pub(super) deaf: bool,
}

/// A queue of names, each once.
#[derive(Debug, Default)]
pub(super) struct Due {
    order: VecDeque<OsString>,
    names: BTreeSet<OsString>,
}

impl Due {
    pub(super) fn push(&mut self, name: OsString) {
        if self.names.insert(name.clone()) {
            self.order.push_back(name);
        }
    }

    pub(super) fn pop(&mut self) -> Option<OsString> {
        let name = self.order.pop_front()?;
        self.names.remove(&name);
        Some(name)
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}

impl Ingest {
    /// Nothing is looked at before [`Ingest::run`].
    pub(super) fn new(paths: &Paths, inbox: Receiver<Message>, own: Sender<Message>, tell: Tell) -> Ingest {
        let hints = Hints::default();
        // The thread may have ended: then nobody has to be rung for.
        let ring = move || drop(own.send(Message::Look));
        let watch = Inotify::new(paths.incoming(), hints.clone(), ring);
        let mut ingest = Ingest {
            paths: paths.clone(),
            inbox,
            tell,
            hints,
            watched: Watched::default(),
            places: None,
            due: Due::default(),
            begun: BTreeMap::new(),
            users: Users::default(),
            under_way: BTreeMap::new(),
            left: VecDeque::new(),
            walk: None,
            next_rescan: Instant::now(),
            aging: Aging::default(),
            complaints: Complaints::default(),
            deaf: false,
        };
        match watch {
            Ok(watch) => ingest.watched = Watched::with(Box::new(watch), paths.incoming()),
            Err(why) => ingest.say("spool_watch", None, "incoming", &why.to_string()),
        }
        ingest
    }

    /// Runs until the loop is gone.
    pub(super) fn run(mut self) {
        self.take_up_left();
        while !self.deaf {
            let wait = self.patience(Instant::now());
            match self.inbox.recv_timeout(wait) {
                Ok(message) => self.on_message(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(message) = self.inbox.try_recv() {
                self.on_message(message);
            }
            self.rescan();
            for folder in self.users.ready(Instant::now()) {
                self.due.push(folder);
            }
            self.pass();
            self.age_refused();
        }
    }

    /// Removes of what was refused what has had its time.
    fn age_refused(&mut self) {
        let Some(places) = &self.places else { return };
        if let Err(error) = self.aging.step(places, Instant::now(), WallTime(clock::wall_ms())) {
            self.failed("refused_aging", None, &error);
        }
    }

    /// How long there is nothing to do.
    fn patience(&self, now: Instant) -> Duration {
        let may = |name: &TakenName| self.users.allowance(name.uid, now) > 0;
        if self.due.len() > 0 || self.walk.is_some() || self.aging.is_busy() || self.left.iter().any(may) {
            return Duration::ZERO;
        }
        let next = self.users.next_end(now).map_or(self.next_rescan, |end| end.min(self.next_rescan));
        next.saturating_duration_since(now)
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Look => {
                let told = self.hints.take();
                if told.all {
                    self.next_rescan = Instant::now();
                }
                for folder in told.folders {
                    if let Some(begun) = self.begun.get_mut(&folder) {
                        begun.again = true;
                    }
                    self.due.push(folder);
                }
            }
            Message::Verdict(id, verdict) => self.on_verdict(&id, verdict),
        }
    }

    fn on_verdict(&mut self, id: &TakenId, verdict: Verdict) {
        let Some(taken) = self.under_way.remove(id) else { return };
        let (uid, bytes) = (taken.name.uid, taken.bytes());
        let wait = match verdict {
            Verdict::Committed => self.unlink(id),
            Verdict::Refused(why) => self.refuse(taken.name, &why),
            Verdict::Later(why) => {
                self.put_back(taken);
                Some(why)
            }
        };
        self.ended(uid, bytes, wait.as_deref());
    }

    /// A drop is no longer under way; `wait`: its user's others have to wait, for this reason.
    pub(super) fn ended(&mut self, uid: Uid, bytes: u64, wait: Option<&str>) {
        let new = self.users.ended(uid, bytes, wait.is_some(), Instant::now());
        if let Some(why) = wait.filter(|_| new) {
            let line = Line::new("drops_wait").text("uid", &uid).text("why", &why);
            self.tell(News::Said(Level::Info, line));
        }
    }

    /// The job is durable. Should the file stay, its key is known at the next start.
    fn unlink(&mut self, id: &TakenId) -> Option<String> {
        let done = self.places.as_ref().map(|places| places.taken.unlink(&id.0));
        if let Some(Err(error)) = done {
            self.failed("drop_unlink", None, &error);
        }
        crash_point!("drop unlinked");
        None
    }

    /// Moves a file from `taken/` to its user's refused ones. What stands in the way, if that has to wait.
    pub(super) fn refuse(&mut self, name: TakenName, why: &str) -> Option<String> {
        let places = self.places.as_ref()?;
        let owner = Some(name.uid);
        match refuse(places, &name, why) {
            Ok(None) => None,
            Ok(Some(error)) => {
                self.failed("drop_refuse", owner, &error);
                None
            }
            Err(error) => {
                self.failed("drop_refuse", owner, &error);
                self.keep(name);
                Some(error.to_string())
            }
        }
    }

    /// Where it came from, it waits.
    pub(super) fn put_back(&mut self, taken: Taken) {
        let uid = taken.name.uid;
        if let Some(folder) = self.restore(taken) {
            self.users.wait(uid, folder);
        }
    }

    /// Puts a file where it was and says which folder that is; if the place is no more, it is kept.
    pub(super) fn restore(&mut self, taken: Taken) -> Option<OsString> {
        let (places, origin) = (self.places.as_ref(), taken.origin.as_ref());
        let back = places.zip(origin).is_some_and(|(places, origin)| {
            places.put_back(&taken.id().0, &origin.dir, &taken.name.name).is_ok()
        });
        if !back {
            self.keep(taken.name);
            return None;
        }
        taken.origin.map(|origin| origin.folder)
    }

    /// It stays in `taken/` and is submitted again after its user's pause, or at the next start.
    fn keep(&mut self, name: TakenName) {
        let there = self.places.as_ref().is_none_or(|places| places.taken.stat(name.id().0).is_ok());
        if there {
            self.left.push_back(name);
        }
    }

    pub(super) fn tell(&mut self, news: News) {
        self.deaf |= !(self.tell)(news);
    }

    /// A complaint about something that this user has done, if it is one's; once.
    pub(super) fn say(&mut self, event: &str, owner: Option<Uid>, what: &str, why: &str) {
        let say = self.complaints.about(owner, format!("{event}\0{what}\0{why}"), Instant::now());
        if say == Say::Nothing {
            return;
        }
        let line = Line::new(event).text("what", &what).text("why", &why);
        let line = match (say, owner) {
            (Say::NoMore, Some(uid)) => {
                line.text("more", &format_args!("what else user {uid} did is not told today"))
            }
            (Say::NoMore, None) => line.text("more", &"others are not told today"),
            _ => line,
        };
        self.tell(News::Said(Level::Warning, line));
    }

    pub(super) fn failed(&mut self, event: &str, owner: Option<Uid>, error: &SysError) {
        self.say(event, owner, "", &error.to_string());
    }

    /// A complaint about a folder of `incoming/`.
    pub(super) fn ignored(&mut self, places: Option<&Places>, folder: &OsStr, why: &str) {
        let owner = places.and_then(|places| places.incoming.stat_unmounted(folder).ok());
        self.say("spool_ignored", owner.map(|meta| Uid(meta.uid)), &shown(folder), why);
    }
}
