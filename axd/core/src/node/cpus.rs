//! Which CPUs of a node are given out, a bit for each. Kept up to date as attempts come and go, so that a start need
//! not look at the attempts.

/// A word for each 64 CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GivenCpus {
    words: Vec<u64>,
    has: u32,
}

impl GivenCpus {
    /// No CPU is given out; there are `has`.
    pub(super) fn none(has: u32) -> GivenCpus {
        GivenCpus { words: vec![0; has.div_ceil(64) as usize], has }
    }

    /// Gives CPUs out. Numbers that the node does not have are ignored: it had more CPUs once.
    pub(super) fn give(&mut self, cpus: &[u32]) {
        self.change(cpus, |word, bit| *word |= bit);
    }

    /// Takes these back.
    pub(super) fn take_back(&mut self, cpus: &[u32]) {
        self.change(cpus, |word, bit| *word &= !bit);
    }

    fn change(&mut self, cpus: &[u32], deed: impl Fn(&mut u64, u64)) {
        for cpu in cpus {
            if let Some(word) = self.words.get_mut(*cpu as usize / 64) {
                deed(word, 1 << (cpu % 64));
            }
        }
    }

    /// The CPUs that are not given out, the lowest first.
    pub(super) fn free(&self) -> impl Iterator<Item = u32> + '_ {
        let of_word = |(at, word): (usize, &u64)| {
            let mut left = !word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(at as u32 * 64 + bit)
            })
        };
        self.words.iter().enumerate().flat_map(of_word).take_while(|cpu| *cpu < self.has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_not_free_and_what_is_taken_back_is() {
        let mut cpus = GivenCpus::none(130);
        cpus.give(&[0, 2, 63, 64, 129, 500]);
        let all = |cpus: &GivenCpus| cpus.free().collect::<Vec<_>>();
        let expected: Vec<u32> = (0..130).filter(|cpu| ![0, 2, 63, 64, 129].contains(cpu)).collect();
        assert_eq!(all(&cpus), expected);
        cpus.take_back(&[2, 129, 500]);
        assert_eq!((all(&cpus)[1], all(&cpus).last()), (2, Some(&129)));
        cpus.take_back(&[0, 63, 64]);
        assert_eq!(cpus, GivenCpus::none(130));
        assert_eq!(GivenCpus::none(0).free().next(), None);
    }
}
