//! Configurations that are YAML and still wrong: each is answered with one line
//! that names the place, the fault and, where there is one, the remedy.

mod common;
#[allow(dead_code, reason = "each test binary has a table of its own")]
mod wrong;

#[test]
fn each_fault_has_an_answer_of_its_own() {
    common::each_has_its_line(wrong::VALUES);
}
