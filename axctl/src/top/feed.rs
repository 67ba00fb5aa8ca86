//! A thread that asks the daemon once a second, and carries out what the person wants, so that keys never wait for
//! it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ax_core::api::{Action, ActionAnswer, ActionRequest, JobsQuery};
use ax_core::id::JobId;
use ax_core::time::WallTime;
use ax_sys::clock;
use ax_sys::socket::Waker;

use super::state::Seen;
use crate::client::Client;
use crate::failure::Failure;

/// How often the daemon is asked; one that takes long is asked less often.
const EVERY: Duration = Duration::from_secs(1);
/// Of the time the daemon works for this program at most one part in so many.
const SHARE: u32 = 5;
/// More jobs than this nobody looks through.
const MOST_JOBS: u32 = 1000;

/// What somebody wants.
#[derive(Debug)]
pub(super) enum Ask {
    Cancel(JobId),
    /// Where does its last attempt write?
    Output(JobId),
}

/// What came.
#[derive(Debug)]
pub(super) enum News {
    Seen(Box<Seen>),
    Said(String),
    Output(JobId, Result<String, String>),
}

/// The loop's end.
pub(super) struct Feed {
    to: Sender<Ask>,
    from: Receiver<News>,
}

impl Feed {
    /// Starts asking.
    pub(super) fn start(client: Client, waker: &Arc<Waker>) -> std::io::Result<Feed> {
        let (to, asks) = channel();
        let (news, from) = channel();
        let waker = Arc::clone(waker);
        thread::Builder::new().name("feed".to_owned()).spawn(move || work(&client, &asks, &news, &waker))?;
        Ok(Feed { to, from })
    }

    pub(super) fn ask(&self, ask: Ask) {
        // The thread ends only when this end is gone.
        let _ = self.to.send(ask);
    }

    pub(super) fn next(&self) -> Option<News> {
        self.from.try_recv().ok()
    }
}

fn work(client: &Client, asks: &Receiver<Ask>, news: &Sender<News>, waker: &Waker) {
    let tell = |what| {
        let told = news.send(what).is_ok();
        told && waker.wake().is_ok()
    };
    loop {
        let began = Instant::now();
        if !tell(News::Seen(Box::new(look(client)))) {
            return;
        }
        let next = Instant::now() + EVERY.max(began.elapsed() * SHARE);
        loop {
            let what = match asks.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Ask::Cancel(job)) => News::Said(cancel(client, job)),
                Ok(Ask::Output(job)) => News::Output(job, output(client, job)),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let again = matches!(what, News::Said(_));
            if !tell(what) {
                return;
            }
            // What was done is to be seen at once.
            if again {
                break;
            }
        }
    }
}

fn look(client: &Client) -> Seen {
    let ask = || {
        let cards = client.get("/api/v1/cards")?;
        let jobs = client.jobs(&JobsQuery { limit: Some(MOST_JOBS), ..JobsQuery::default() })?;
        Ok::<_, Failure>((cards, jobs))
    };
    let at = WallTime(clock::wall_ms());
    match ask() {
        Ok((cards, answer)) => {
            Seen { at, cards, jobs: answer.jobs, left_out: answer.left_out, trouble: None }
        }
        Err(error) => Seen { at, trouble: Some(error.to_string()), ..Seen::default() },
    }
}

fn cancel(client: &Client, job: JobId) -> String {
    let action = Action::Cancel { signal: None };
    let request = ActionRequest { action, jobs: vec![job.to_string()], select: None, why: None };
    match client.post::<_, ActionAnswer>("/api/v1/jobs/action", &request) {
        Ok(answer) => {
            let first = answer.results.into_iter().next();
            let said = first.and_then(|result| result.error.map(|error| error.error).or(result.done));
            format!("{job}: {}", said.unwrap_or_else(|| "done".to_owned()))
        }
        Err(error) => error.to_string(),
    }
}

fn output(client: &Client, job: JobId) -> Result<String, String> {
    let view = client.job(&job.to_string()).map_err(|error| error.to_string())?;
    view.stdout.ok_or_else(|| format!("{job} has written nothing yet"))
}
