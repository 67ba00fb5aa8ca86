//! Variables that tell frameworks how large a job's slices are, so that they keep to them without a change of the
//! job's code. They are settings of programs, not limits: each holds for one process and one framework's pool, and a
//! job can undo it.
//!
//! A variable that the user has set stays as it is. Nothing is set that could make a program refuse to start.

use std::collections::BTreeMap;

use crate::job::spec::MemHints;
use crate::size::Megabytes;

use super::Rung;
use super::visible::{Fraction, HeldCard};

/// The job's variables, by name.
pub type Variables = BTreeMap<String, String>;

/// Of PyTorch's two variables, the one that wins if both are there; the other is known since PyTorch 2.9.
const TORCH: &str = "PYTORCH_CUDA_ALLOC_CONF";
const TORCH_GENERIC: &str = "PYTORCH_ALLOC_CONF";
const TORCH_FRACTION: &str = "per_process_memory_fraction";
const TORCH_SEGMENTS: &str = "expandable_segments";

/// JAX's, the new name and the old one.
const JAX: [&str; 2] = ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"];
const CUPY: &str = "CUPY_GPU_MEMORY_LIMIT";
const TENSORFLOW: &str = "TF_FORCE_GPU_ALLOW_GROWTH";

/// Who holds a job to its slices: the weakest enforcement among its cards, or these settings if nothing else holds
/// it. `None` if it has no slices.
pub fn enforced(held: &[HeldCard], hints: MemHints) -> Option<Rung> {
    let weakest = held.iter().filter(|card| card.slice.is_some()).map(|card| card.limit).max()?;
    Some(with_settings(weakest, hints))
}

/// The enforcement of a card, or these settings if nothing stronger holds.
pub fn with_settings(rung: Rung, hints: MemHints) -> Rung {
    if hints == MemHints::None { rung } else { rung.min(Rung::Env) }
}

/// Sets the variables for these cards, of which the driver and its libraries take `context`. Returns what was set, in
/// words that contain nothing of the user's.
pub fn apply(
    variables: &mut Variables,
    held: &[HeldCard],
    hints: MemHints,
    context: Megabytes,
) -> Vec<String> {
    let Some(rung) = enforced(held, hints).filter(|_| hints != MemHints::None) else { return Vec::new() };
    // Under the driver's limit programs see the slice as the whole card, so a fraction of it would be applied twice.
    let pool = if rung == Rung::Driver { None } else { Pool::of(held, context) };
    let mut told = match &pool {
        Some(pool) => offer_plain(variables, pool),
        None => Vec::new(),
    };
    let fraction = pool.as_ref().and_then(|pool| pool.fraction).filter(|_| hints == MemHints::Torch);
    told.extend(add_to_torch(variables, fraction));
    told
}

/// What frameworks may take of each slice.
struct Pool {
    mem: Megabytes,
    fraction: Option<Fraction>,
}

impl Pool {
    /// `context` takes at most a quarter of a slice, so that something is left.
    fn of(held: &[HeldCard], context: Megabytes) -> Option<Pool> {
        let left = |slice: Megabytes| slice - context.min(Megabytes(slice.0 / 4));
        let slices = || held.iter().filter_map(|card| Some((left(card.slice?), card.mem)));
        let mem = slices().map(|(pool, _)| pool).min()?;
        let fraction = slices().map(|(pool, whole)| Fraction::of(pool, whole)).min()?;
        Some(Pool { mem, fraction })
    }
}

/// Variables with one value: sets those that the user has not set.
fn offer_plain(variables: &mut Variables, pool: &Pool) -> Vec<String> {
    let mut offers = vec![
        ("AX_GPU_POOL_MB", pool.mem.0.to_string()),
        (CUPY, pool.mem.bytes().to_string()),
        (TENSORFLOW, "true".to_owned()),
    ];
    // JAX may read either name: if the user has set one, ours could override it.
    let fraction = pool.fraction.filter(|_| !JAX.iter().any(|name| variables.contains_key(*name)));
    offers.extend(fraction.into_iter().flat_map(|fraction| JAX.map(|name| (name, fraction.to_string()))));
    offers.retain(|(name, _)| !variables.contains_key(*name));
    variables.extend(offers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    offers.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// Adds our keys to the variable that PyTorch will read.
fn add_to_torch(variables: &mut Variables, fraction: Option<Fraction>) -> Option<String> {
    let generic = variables.contains_key(TORCH_GENERIC) && !variables.contains_key(TORCH);
    let name = if generic { TORCH_GENERIC } else { TORCH };
    let mut settings = Settings::parse(variables.get(name).map_or("", String::as_str));
    let mut ours = Vec::new();
    ours.extend(settings.add_if_absent(TORCH_SEGMENTS, "True"));
    ours.extend(fraction.and_then(|part| settings.keep_smaller(TORCH_FRACTION, &part.to_string())));
    if ours.is_empty() {
        return None;
    }
    variables.insert(name.to_owned(), settings.text());
    Some(format!("{name} with {}", ours.join(",")))
}

/// `key:value,key:[a:1,b:2]`, the words as they were written.
struct Settings(Vec<String>);

impl Settings {
    /// Commas within brackets belong to a value.
    fn parse(text: &str) -> Settings {
        let mut depth = 0_usize;
        let words = text.split(|c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        });
        Settings(words.map(str::to_owned).filter(|word| !word.trim().is_empty()).collect())
    }

    fn find(&mut self, key: &str) -> Option<&mut String> {
        self.0.iter_mut().find(|word| word.split(':').next().is_some_and(|name| name.trim() == key))
    }

    /// Adds a setting if there is none with its key. Returns what was added.
    fn add_if_absent(&mut self, key: &str, value: &str) -> Option<String> {
        if self.find(key).is_some() {
            return None;
        }
        let word = format!("{key}:{value}");
        self.0.push(word.clone());
        Some(word)
    }

    /// Adds a setting, or replaces a larger value. Returns what was set. A value that is no number stays: PyTorch
    /// will complain about it to the user.
    fn keep_smaller(&mut self, key: &str, value: &str) -> Option<String> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let Some(word) = self.find(key) else { return self.add_if_absent(key, value) };
        let theirs = word.split_once(':').and_then(|(_, text)| number(text))?;
        if theirs <= number(value)? {
            return None;
        }
        *word = format!("{key}:{value}");
        Some(word.clone())
    }

    fn text(&self) -> String {
        self.0.join(",")
    }
}

#[cfg(test)]
mod tests;
