//! No YAML, or more of it than a configuration may hold.

/// File, and the line that answers it.
pub(crate) const WRONG: &[(&str, &str)] = &[
    ("cluster:\n\tname: x\n", "c:2:2: a tab can't indent; use blanks"),
    ("cluster:\n  name: \"x\n", "c:2:9: the quote that begins here has no end; end it on the same line"),
    ("queues: [a, b\n", "c:1:9: the bracket that opens here is never closed; close it on the same line"),
    ("cluster: {name: x\n", "c:1:10: the bracket that opens here is never closed; close it on the same line"),
    (
        "cluster: {name: lab\nqueues: []\n",
        "c:2:7: a bracket that was opened before this is not closed, or a comma is missing; close it on the same line",
    ),
    (
        "cluster:\n  name: x]\n  timezone: ]\n",
        "c:3:13: a bracket closes that was not opened; put the text in quotes",
    ),
    (
        "cluster: name: x\n",
        "c:1:14: a ':' is not allowed here; indent the keys of a block alike, and put a text with ': ' in quotes",
    ),
    (
        "cluster:\n  name: x\n   timezone: y\n",
        "c:3:12: a ':' is not allowed here; indent the keys of a block alike, and put a text with ': ' in quotes",
    ),
    ("cluster:\n  name: @x\n", "c:2:9: a value can't begin with this character; put the text in quotes"),
    ("cluster:\n  name: a\0b\n", "c:2:10: there is a control character here; remove it"),
    ("cluster:\n  name: *x\n", "c:2:9: the alias stands for nothing; put a text with '*' in quotes"),
    ("cluster:\n  admins: &a [*a]\n", "c:2:15: the alias stands for what it stands in"),
    (
        "cluster: {}\n---\npolicy: {}\n",
        "c:2:1: a second YAML document begins here; a configuration is one document",
    ),
    ("queues:\n- name: a\nb\n", "c:3:1: this is neither a key nor a value; write 'key: value'"),
    (
        "cluster:\n  name: \"\\q\"\n",
        "c:2:9: there is an unknown escape in the text; write '\\\\' for '\\', or use single quotes",
    ),
    (
        "cluster:\n  name: !ruby/object x\n",
        "c:2:22: tags are not read; leave out the word that begins with '!'",
    ),
    ("cluster:\n  name: !!int x\n", "c:2:15: the value is not what its tag says; leave out the tag"),
    ("[a]: 1\n", "c:1:1: a key must be a single word"),
    ("? {a: b}\n: 1\n", "c:1:3: a key must be a single word"),
    ("%YAML 9.9\n---\na: 1\n", "c:1:1: unsupported YAML major version"),
    ("queues:\n  - name: a\n - name: b\n", "c:3:2: a key must begin here; indent the keys of a block alike"),
    ("cluster:\nname\n", "c:2:1: this is neither a key nor a value; write 'key: value'"),
    (
        "cluster:\n  name: \"x\" y\n",
        "c:2:13: there is more text after the closing quote; put all of it in quotes",
    ),
    ("}\n", "c:1:1: a bracket closes that was not opened; put the text in quotes"),
];
