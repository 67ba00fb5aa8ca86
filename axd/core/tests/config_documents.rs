//! The manual page and the sample file are those that the table makes.
//! `AX_BLESS=1 cargo test -p ax-core --test config_documents` writes them anew.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::path::Path;

use ax_core::config::keys;

fn held_equal(path: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("AX_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, made).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "{} is old: run AX_BLESS=1 cargo test -p ax-core", path.display());
}

#[test]
fn the_manual_page_is_made_from_the_table() {
    held_equal("man/ax.conf.5", &keys::mdoc());
}

#[test]
fn the_sample_is_made_from_the_table() {
    held_equal("etc/config.yaml", &keys::sample());
}

#[test]
fn the_manual_page_names_every_key_and_alias() {
    let page = keys::mdoc();
    for key in keys::KEYS {
        assert!(page.contains(&format!(".It Ic {}\n", key.name())), "{}", key.path);
        assert!(key.doc.ends_with('.') && !key.doc.contains("  "), "{}", key.path);
    }
    for alias in keys::ALIASES {
        assert!(page.contains(&format!(".It Ic {} No", alias.name)), "{}", alias.name);
    }
}
