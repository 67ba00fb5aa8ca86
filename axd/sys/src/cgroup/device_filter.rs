//! Which devices a job may open: a small BPF program on its unified group, or on a parent of it; on a machine with v1
//! alone, the `devices` controller.
//!
//! The first rule that matches decides; what no rule matches is allowed. All programs from the top down to the job
//! must allow a device, so a filter further down can't widen it. Loading costs 250 µs, attaching 6: load once, keep
//! the value, attach often. An attached program stays until its group is removed, even when this process is gone.

use super::group::JobGroup;
use super::hierarchy::Controller;
use super::{files, hierarchy};
use crate::error::{Doing, Result, SysError, check_long};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_ATTACH: libc::c_int = 8;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_CGROUP_DEVICE: u32 = 6;
const BPF_F_ALLOW_MULTI: u32 = 2;

/// The kinds of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// Character devices: cards are.
    Character,
    /// Block devices: disks are.
    Block,
}

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceRule {
    /// Whether a matching device is allowed or denied, for reading, writing and mknod alike.
    pub allow: bool,
    /// The kind of device.
    pub kind: DeviceKind,
    /// Major number.
    pub major: u32,
    /// Minor number; `None` for all.
    pub minor: Option<u32>,
}

impl DeviceRule {
    /// Denies a character device.
    pub fn deny(major: u32, minor: Option<u32>) -> DeviceRule {
        DeviceRule { allow: false, kind: DeviceKind::Character, major, minor }
    }

    /// Allows a character device that a later rule would deny.
    pub fn allow(major: u32, minor: Option<u32>) -> DeviceRule {
        DeviceRule { allow: true, kind: DeviceKind::Character, major, minor }
    }
}

/// A loaded program with its rules.
#[derive(Debug)]
pub struct DeviceFilter {
    rules: Vec<DeviceRule>,
    program: Option<OwnedFd>,
}

impl DeviceFilter {
    /// Loads the rules for this machine: as a program, unless there is no unified tree to attach one to.
    ///
    /// # Errors
    /// EPERM without root, ENOMEM for more rules than the kernel takes.
    pub fn load(hierarchy: &hierarchy::Hierarchy, rules: &[DeviceRule]) -> Result<DeviceFilter> {
        let program = match hierarchy.unified() {
            Some(_) => Some(load(&assemble(rules)).doing("load", "a device filter")?),
            None => None,
        };
        Ok(DeviceFilter { rules: rules.to_vec(), program })
    }

    /// Filters the devices of one job.
    ///
    /// # Errors
    /// What the kernel says; in v1 also when the job has no `devices` group
    /// ([`super::Limits::devices`]) or a rule allows, which v1 can't carve out of what is denied.
    pub fn attach(&self, group: &JobGroup) -> Result<()> {
        match (group.unified_path(), group.v1_dir(Controller::Devices)) {
            (Some(dir), _) => self.attach_path(dir),
            (None, Some(dir)) => self.deny_v1(dir),
            (None, None) => {
                Err(SysError::found("filter the devices of", "a job", "it has no group that can"))
            }
        }
    }

    /// Filters the devices of a group of the unified tree and all below it, for instance of the
    /// parent of all jobs without cards.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn attach_path(&self, unified_group: &Path) -> Result<()> {
        let what = unified_group.display();
        let Some(program) = &self.program else {
            return Err(SysError::found("filter the devices of", what, "no program is loaded"));
        };
        let dir = File::open(unified_group).doing("open", &what)?;
        attach(program, &dir).doing("filter the devices of", what)
    }

    fn deny_v1(&self, dir: &Path) -> Result<()> {
        for rule in &self.rules {
            let minor = rule.minor.map_or_else(|| "*".to_owned(), |minor| minor.to_string());
            let kind = if rule.kind == DeviceKind::Block { 'b' } else { 'c' };
            if rule.allow {
                let text = "v1 can't allow what a later rule denies";
                return Err(SysError::found("filter the devices of", dir.display(), text));
            }
            files::write(&dir.join("devices.deny"), &format!("{kind} {}:{minor} rwm", rule.major))?;
        }
        Ok(())
    }
}

/// One instruction of the kernel's virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination in the low four bits, source in the high four.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const LOAD_WORD: u8 = 0x61;
const AND: u8 = 0x57;
const SET: u8 = 0xb7;
const JUMP_UNLESS_EQUAL: u8 = 0x55;
const EXIT: u8 = 0x95;

fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers, offset, immediate }
}

/// The program finds in memory at r1: type (low 16 bits) and access, major, minor. It returns 1 to allow.
fn assemble(rules: &[DeviceRule]) -> Vec<Instruction> {
    let mut program = vec![
        instruction(LOAD_WORD, 0x12, 0, 0),
        instruction(AND, 0x02, 0, 0xffff),
        instruction(LOAD_WORD, 0x13, 4, 0),
        instruction(LOAD_WORD, 0x14, 8, 0),
    ];
    for rule in rules {
        let kind = if rule.kind == DeviceKind::Block { 1 } else { 2 };
        let mut tests = vec![(0x02, kind), (0x03, rule.major.cast_signed())];
        tests.extend(rule.minor.map(|minor| (0x04, minor.cast_signed())));
        // Each failing test jumps over the tests after it and over the two instructions of the verdict.
        for (after, (register, value)) in (2..2 + tests.len() as i16).rev().zip(tests) {
            program.push(instruction(JUMP_UNLESS_EQUAL, register, after, value));
        }
        program.push(instruction(SET, 0x00, 0, i32::from(rule.allow)));
        program.push(instruction(EXIT, 0, 0, 0));
    }
    program.push(instruction(SET, 0x00, 0, 1));
    program.push(instruction(EXIT, 0, 0, 0));
    program
}

/// The beginning of the kernel's union for loading; what follows is taken as zero.
#[repr(C)]
struct LoadArguments {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let arguments = LoadArguments {
        program_type: BPF_PROG_TYPE_CGROUP_DEVICE,
        instruction_count: u32::try_from(program.len()).map_err(io::Error::other)?,
        instructions: program.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
    };
    // SAFETY: the structure begins as the kernel's does and its size is passed; its pointers are to live memory of
    // the lengths given.
    let made = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const arguments, size_of::<LoadArguments>())
    };
    let raw = i32::try_from(check_long(made)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor (close-on-exec) for us.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// The same for attaching.
#[repr(C)]
struct AttachArguments {
    target: u32,
    program: u32,
    attach_type: u32,
    flags: u32,
}

fn attach(program: &OwnedFd, group: &impl AsFd) -> io::Result<()> {
    let arguments = AttachArguments {
        target: group.as_fd().as_raw_fd().unsigned_abs(),
        program: program.as_raw_fd().unsigned_abs(),
        attach_type: BPF_CGROUP_DEVICE,
        flags: BPF_F_ALLOW_MULTI,
    };
    // SAFETY: the structure begins as the kernel's does, its size is passed, and both descriptors are open.
    let done = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_PROG_ATTACH, &raw const arguments, size_of::<AttachArguments>())
    };
    check_long(done).map(drop)
}
