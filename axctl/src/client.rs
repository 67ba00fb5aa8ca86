//! Questions to the daemon as typed calls, one connection for each. Returns the daemon's errors unchanged. Makes no
//! words for people.

use std::time::Duration;

use ax_core::api::{ApiError, ErrorClass, JobView, JobsAnswer, JobsQuery};
use ax_core::text::quoted;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connect::Place;
use crate::failure::Failure;
use crate::http::{self, Answer, Request, WireError};

/// How long an ordinary question may take: a commit on a slow disk, a list of 100,000 jobs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon to ask.
#[derive(Debug, Clone)]
pub struct Client {
    place: Place,
}

impl Client {
    /// Asks the daemon of this place.
    pub fn new(place: Place) -> Client {
        Client { place }
    }

    /// The places of the daemon.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// `GET target`, read as `T`.
    ///
    /// # Errors
    /// No daemon, a broken conversation, or the daemon's own error.
    pub fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, Failure> {
        self.ask("GET", target, b"", PATIENCE)
    }

    /// `POST target` with a document, the answer read as `T`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post<B: Serialize, T: DeserializeOwned>(&self, target: &str, body: &B) -> Result<T, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::said(ErrorClass::Data, format!("cannot write the request: {error}")))?;
        self.ask("POST", target, &body, PATIENCE)
    }

    /// One job, whole.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn job(&self, job: &str) -> Result<JobView, Failure> {
        self.get(&format!("/api/v1/jobs/{}", named(job)?))
    }

    /// One job, with what it could ask for instead to start at once.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn advised(&self, job: &str) -> Result<JobView, Failure> {
        self.get(&format!("/api/v1/jobs/{}?advice=1", named(job)?))
    }

    /// One job, once it has ended or after `seconds`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn wait(&self, job: &str, seconds: u64) -> Result<JobView, Failure> {
        let target = format!("/api/v1/jobs/{}/wait?timeout_s={seconds}", named(job)?);
        self.ask("GET", &target, b"", PATIENCE + Duration::from_secs(seconds))
    }

    /// The jobs that fit.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn jobs(&self, query: &JobsQuery) -> Result<JobsAnswer, Failure> {
        self.get(&format!("/api/v1/jobs{}", query_string(query)))
    }

    fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
        patience: Duration,
    ) -> Result<T, Failure> {
        let stream = self.place.connect()?;
        let answer = http::exchange(&stream, &Request { method, target, body }, patience)?;
        read(&answer)
    }
}

/// A job's name as a part of a path; one that would change the path names none.
pub(crate) fn named(job: &str) -> Result<String, Failure> {
    if job.is_empty() || job.contains('/') || job.chars().any(char::is_control) {
        let line = format!("{} is no job: ids look like ax-2026-0001, or 1", quoted(job));
        return Err(Failure::Answer(ApiError { class: ErrorClass::Refused, error: line }));
    }
    Ok(http::encode(job))
}

fn read<T: DeserializeOwned>(answer: &Answer) -> Result<T, Failure> {
    let not_ax = |error: serde_json::Error| Failure::from(WireError::NotAx(error.to_string()));
    if (200..300).contains(&answer.status) {
        return serde_json::from_slice(&answer.body).map_err(not_ax);
    }
    match serde_json::from_slice::<ApiError>(&answer.body) {
        Ok(error) => Err(Failure::Answer(error)),
        Err(_) => Err(WireError::NotAx(format!("status {} without an explanation", answer.status)).into()),
    }
}

/// `?user=a&user=b&all=1`, or nothing.
fn query_string(query: &JobsQuery) -> String {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    for (key, values) in [("user", &query.user), ("queue", &query.queue), ("name", &query.name)] {
        pairs.extend(values.iter().map(|value| (key, value.clone())));
    }
    pairs.extend(query.number.iter().map(|number| ("number", number.to_string())));
    pairs.extend(query.state.iter().map(|state| ("state", state.word().to_owned())));
    let flags = [("all", query.all), ("finished", query.finished), ("by_start", query.by_start)];
    pairs.extend(flags.iter().filter(|(_, set)| *set).map(|(key, _)| (*key, "1".to_owned())));
    for (key, time) in [("since", query.since), ("until", query.until)] {
        pairs.extend(time.map(|time| (key, time.to_string())));
    }
    pairs.extend(query.limit.map(|limit| ("limit", limit.to_string())));
    let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={}", http::encode(v))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_core::job::state::JobState;
    use ax_core::time::WallTime;

    #[test]
    fn a_query_is_written_whole() {
        assert_eq!(query_string(&JobsQuery::default()), "");
        let query = JobsQuery {
            user: vec!["a".into(), "b&c".into()],
            state: vec![JobState::Running],
            number: vec![7],
            all: true,
            by_start: true,
            since: Some(WallTime(0)),
            limit: Some(5),
            ..JobsQuery::default()
        };
        let text = "?user=a&user=b%26c&number=7&state=RUNNING&all=1&by_start=1&since=1970-01-01T00%3A00%3A00.000Z&limit=5";
        assert_eq!(query_string(&query), text);
    }

    #[test]
    fn an_error_keeps_its_class() {
        let body = br#"{"class":"try_again","error":"the queue is full"}"#.to_vec();
        let failure = read::<JobView>(&Answer { status: 503, body }).unwrap_err();
        assert_eq!((failure.exit_code(), failure.to_string().as_str()), (75, "the queue is full"));
        let failure = read::<JobView>(&Answer { status: 500, body: Vec::new() }).unwrap_err();
        assert_eq!(failure.exit_code(), 69);
    }
}
