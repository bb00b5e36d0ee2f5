//! The device rules of a container on cgroup version 2: an eBPF program on its cgroup, which the kernel asks at each
//! open and mknod of a device (Documentation/admin-guide/cgroup-v2.rst, "Device controller").
//!
//! Each kind of access that is asked for is decided by the last rule that speaks of it, as if the rules had been written
//! one after the other. The program looks at the last rule first, and at what no rule has allowed yet.
//!
//! libcgroups has such a program too, but lowers the limit of locked memory for the container with it, which GPU
//! programs need, and cannot do without CAP_SYS_RESOURCE.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::errno::Errno;
use oci_spec::runtime::{LinuxDeviceCgroup, LinuxDeviceType};

/// Most rules of a spec: each takes up to 8 of the 4096 instructions that any kernel takes.
const RULES_MAX: usize = 400;

/// bpf_cmd, bpf_prog_type, bpf_attach_type and flags of linux/bpf.h.
const PROG_LOAD: libc::c_int = 5;
const PROG_ATTACH: libc::c_int = 8;
const TYPE_CGROUP_DEVICE: u32 = 15;
const ATTACH_CGROUP_DEVICE: u32 = 6;
/// Containers within the container may have programs of their own.
const ALLOW_MULTI: u32 = 2;

/// BPF_DEVCG_DEV_* and BPF_DEVCG_ACC_* of linux/bpf.h.
const BLOCK: i32 = 1;
const CHARACTER: i32 = 2;
const MKNOD: i32 = 1;
const READ: i32 = 2;
const WRITE: i32 = 4;

/// What every container may do, whatever its spec says: make any device node, and use the harmless devices and its
/// terminals (runc: libcontainer/specconv, AllowedDevices).
const ALWAYS: &[Rule] = &[
    Rule { allow: true, kind: CHARACTER, major: None, minor: None, access: MKNOD },
    Rule { allow: true, kind: BLOCK, major: None, minor: None, access: MKNOD },
    usable(1, Some(3)),
    usable(1, Some(5)),
    usable(1, Some(7)),
    usable(1, Some(8)),
    usable(1, Some(9)),
    usable(5, Some(0)),
    usable(5, Some(2)),
    usable(136, None),
];

const fn usable(major: i32, minor: Option<i32>) -> Rule {
    Rule { allow: true, kind: CHARACTER, major: Some(major), minor, access: MKNOD | READ | WRITE }
}

/// One rule, in the kernel's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    allow: bool,
    kind: i32,
    major: Option<i32>,
    minor: Option<i32>,
    access: i32,
}

/// The rules of a container, and what holds where none of them speaks.
#[derive(Debug, PartialEq, Eq)]
struct Rules {
    allow: bool,
    rules: Vec<Rule>,
}

impl Rules {
    fn of(spec: &[LinuxDeviceCgroup]) -> Result<Rules> {
        let mut all = Rules { allow: false, rules: Vec::new() };
        for rule in spec {
            match rule.typ().unwrap_or_default() {
                // A rule for all devices is the end of those before it.
                LinuxDeviceType::A => all = Rules { allow: rule.allow(), rules: Vec::new() },
                LinuxDeviceType::B => all.rules.push(parsed(rule, BLOCK)?),
                LinuxDeviceType::C | LinuxDeviceType::U => all.rules.push(parsed(rule, CHARACTER)?),
                LinuxDeviceType::P => {}
            }
        }
        if all.rules.len() > RULES_MAX {
            return Err(wrong(format_args!("{} of them, at most {RULES_MAX} are possible", all.rules.len())));
        }
        all.rules.extend(ALWAYS);
        Ok(all)
    }

    /// The program.
    fn program(&self) -> Vec<u64> {
        use op::*;
        // R2: kind of device, R3: access asked for and not allowed yet, R4: major, R5: minor.
        let mut program = vec![
            instruction(LOAD_WORD, 2, 1, 0, 0),
            instruction(COPY, 3, 2, 0, 0),
            instruction(AND, 2, 0, 0, 0xffff),
            instruction(SHIFT_RIGHT, 3, 0, 0, 16),
            instruction(LOAD_WORD, 4, 1, 4, 0),
            instruction(LOAD_WORD, 5, 1, 8, 0),
        ];
        for rule in self.rules.iter().rev() {
            let mut conditions = vec![(2, rule.kind)];
            conditions.extend(rule.major.map(|major| (4, major)));
            conditions.extend(rule.minor.map(|minor| (5, minor)));
            let verdict = match rule.allow {
                true => vec![
                    instruction(AND, 3, 0, 0, !rule.access),
                    instruction(JUMP_UNLESS, 3, 0, 2, 0),
                    instruction(SET, 0, 0, 0, 1),
                    instruction(EXIT, 0, 0, 0, 0),
                ],
                false => vec![
                    instruction(COPY, 1, 3, 0, 0),
                    instruction(AND, 1, 0, 0, rule.access),
                    instruction(JUMP_IF, 1, 0, 2, 0),
                    instruction(SET, 0, 0, 0, 0),
                    instruction(EXIT, 0, 0, 0, 0),
                ],
            };
            let count = conditions.len();
            for (at, (register, wanted)) in conditions.into_iter().enumerate() {
                let rest = i16::try_from(count - at - 1 + verdict.len()).unwrap_or(i16::MAX);
                program.push(instruction(JUMP_UNLESS, register, 0, rest, wanted));
            }
            program.extend(verdict);
        }
        program.push(instruction(SET, 0, 0, 0, i32::from(self.allow)));
        program.push(instruction(EXIT, 0, 0, 0, 0));
        program
    }
}

fn wrong(why: impl std::fmt::Display) -> Fault {
    Fault::new(Code::Bundle, "read the device rules of the spec", why).advise("correct config.json")
}

fn parsed(rule: &LinuxDeviceCgroup, kind: i32) -> Result<Rule> {
    let number = |value: Option<i64>| match value {
        None | Some(-1) => Ok(None),
        Some(value) => i32::try_from(value)
            .ok()
            .filter(|value| *value >= 0)
            .map(Some)
            .ok_or_else(|| wrong(format_args!("{value} is no device number"))),
    };
    let mut access = 0;
    for letter in rule.access().as_deref().unwrap_or_default().chars() {
        access |= match letter {
            'r' => READ,
            'w' => WRITE,
            'm' => MKNOD,
            _ => return Err(wrong(format_args!("{letter:?} is no access"))),
        };
    }
    Ok(Rule { allow: rule.allow(), kind, major: number(rule.major())?, minor: number(rule.minor())?, access })
}

/// Operations of eBPF (Documentation/bpf/standardization/instruction-set.rst).
mod op {
    /// dst = *(u32 *)(src + offset).
    pub(super) const LOAD_WORD: u8 = 0x61;
    /// dst = src.
    pub(super) const COPY: u8 = 0xbf;
    /// dst = immediate.
    pub(super) const SET: u8 = 0xb7;
    /// dst &= immediate.
    pub(super) const AND: u8 = 0x57;
    /// dst >>= immediate.
    pub(super) const SHIFT_RIGHT: u8 = 0x77;
    /// Skip `offset` instructions when dst != immediate.
    pub(super) const JUMP_UNLESS: u8 = 0x55;
    /// Skip `offset` instructions when dst == immediate.
    pub(super) const JUMP_IF: u8 = 0x15;
    /// Return R0.
    pub(super) const EXIT: u8 = 0x95;
}

/// `struct bpf_insn` of linux/bpf.h as this machine has it in memory.
fn instruction(operation: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> u64 {
    let [low, high] = offset.to_le_bytes();
    let [a, b, c, d] = immediate.to_le_bytes();
    u64::from_le_bytes([operation, src << 4 | dst, low, high, a, b, c, d])
}

/// Has the kernel hold the processes of a cgroup of version 2 to these rules.
///
/// # Errors
/// `BUNDLE` for rules that are none, `SYSTEM` when the kernel refuses.
pub(crate) fn attach(cgroup: &Path, rules: &[LinuxDeviceCgroup]) -> Result<()> {
    let what = || format!("set the device rules of cgroup {}", cgroup.display());
    let program = Rules::of(rules)?.program();
    let folder = File::open(cgroup).attempt(what)?;
    let attached = load(&program).and_then(|program| {
        #[repr(C)]
        struct Attach {
            target: i32,
            program: i32,
            kind: u32,
            flags: u32,
        }
        let attributes = Attach {
            target: folder.as_raw_fd(),
            program: program.as_raw_fd(),
            kind: ATTACH_CGROUP_DEVICE,
            flags: ALLOW_MULTI,
        };
        bpf(PROG_ATTACH, &attributes).map(drop)
    });
    match attached {
        // In a user namespace nobody may; the rules of the host hold there, as runc has it.
        Err(Errno::EPERM) if in_user_namespace() => Ok(()),
        Err(errno) => Err(Fault::new(Code::System, what(), errno.desc())
            .advise("run with CAP_SYS_ADMIN on a kernel with CONFIG_CGROUP_BPF")),
        Ok(()) => Ok(()),
    }
}

fn load(program: &[u64]) -> nix::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel: u32,
        flags: u32,
    }
    let attributes = Load {
        kind: TYPE_CGROUP_DEVICE,
        count: u32::try_from(program.len()).map_err(|_| Errno::E2BIG)?,
        instructions: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags: 0,
    };
    let fd = bpf(PROG_LOAD, &attributes)?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The system call. `T` is the part of `union bpf_attr` that the command reads.
fn bpf<T>(command: libc::c_int, attributes: &T) -> nix::Result<i32> {
    // SAFETY: the attributes are valid for the length that is passed, and whatever they point to outlives the call.
    let outcome = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) };
    Errno::result(outcome).map(|value| i32::try_from(value).unwrap_or(i32::MAX))
}

/// Whether users here are others on the host.
fn in_user_namespace() -> bool {
    let whole = |text: String| text.split_whitespace().eq(["0", "0", "4294967295"]);
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|text| !whole(text))
}

#[cfg(test)]
mod tests {
    use oci_spec::runtime::LinuxDeviceCgroupBuilder;

    use super::*;

    fn rule(allow: bool, typ: LinuxDeviceType, numbers: (i64, i64), access: &str) -> LinuxDeviceCgroup {
        let builder = LinuxDeviceCgroupBuilder::default().allow(allow).typ(typ).access(access);
        builder.major(numbers.0).minor(numbers.1).build().expect("a rule")
    }

    /// Runs the program on a question as the kernel does; every step is checked to be one that the verifier takes.
    fn answer(rules: &[LinuxDeviceCgroup], kind: i32, major: i32, minor: i32, access: i32) -> bool {
        let program = Rules::of(rules).expect("rules").program();
        let context = [access << 16 | kind, major, minor];
        let (mut registers, mut at) = ([0_i64; 6], 0);
        loop {
            let [operation, names, low, high, a, b, c, d] = program[at].to_le_bytes();
            let (dst, src) = (usize::from(names & 15), usize::from(names >> 4));
            let offset = i16::from_le_bytes([low, high]);
            let immediate = i64::from(i32::from_le_bytes([a, b, c, d]));
            at += 1;
            let skip = usize::try_from(offset);
            match operation {
                op::LOAD_WORD => {
                    assert_eq!(src, 1, "only the context is read");
                    registers[dst] = i64::from(context[skip.expect("forward") / 4]);
                }
                op::COPY => registers[dst] = registers[src],
                op::SET => registers[dst] = immediate,
                op::AND => registers[dst] &= immediate,
                op::SHIFT_RIGHT => registers[dst] >>= immediate,
                op::JUMP_UNLESS if registers[dst] != immediate => at += skip.expect("forward"),
                op::JUMP_IF if registers[dst] == immediate => at += skip.expect("forward"),
                op::JUMP_UNLESS | op::JUMP_IF => {}
                op::EXIT => return registers[0] == 1,
                _ => panic!("operation {operation:#x}"),
            }
        }
    }

    const NONE: (i64, i64) = (-1, -1);

    #[test]
    fn a_container_has_its_card_and_no_other() {
        let rules = [
            rule(false, LinuxDeviceType::A, NONE, "rwm"),
            rule(true, LinuxDeviceType::C, (195, 0), "rw"),
            rule(true, LinuxDeviceType::C, (195, 255), "rwm"),
        ];
        assert!(answer(&rules, CHARACTER, 195, 0, READ | WRITE));
        assert!(answer(&rules, CHARACTER, 195, 255, READ));
        assert!(!answer(&rules, CHARACTER, 195, 1, READ));
        assert!(!answer(&rules, BLOCK, 195, 0, READ));
        assert!(answer(&rules, CHARACTER, 1, 3, READ | WRITE));
        assert!(answer(&rules, CHARACTER, 136, 7, READ | WRITE));
        assert!(answer(&rules, BLOCK, 8, 0, MKNOD));
        assert!(!answer(&rules, BLOCK, 8, 0, READ));
    }

    #[test]
    fn each_access_is_decided_by_the_last_rule_that_speaks_of_it() {
        let rules = [
            rule(true, LinuxDeviceType::C, (10, 1), "r"),
            rule(true, LinuxDeviceType::C, (10, -1), "w"),
            rule(true, LinuxDeviceType::C, (20, -1), "rw"),
            rule(false, LinuxDeviceType::C, (20, 5), "w"),
        ];
        assert!(answer(&rules, CHARACTER, 10, 1, READ | WRITE), "two rules together");
        assert!(!answer(&rules, CHARACTER, 10, 2, READ | WRITE));
        assert!(answer(&rules, CHARACTER, 20, 5, READ));
        assert!(!answer(&rules, CHARACTER, 20, 5, READ | WRITE), "one part is forbidden");
        assert!(answer(&rules, CHARACTER, 20, 6, READ | WRITE));
    }

    #[test]
    fn a_rule_for_all_devices_ends_those_before_it() {
        let before = rule(true, LinuxDeviceType::C, (195, 0), "rw");
        let closed = [before.clone(), rule(false, LinuxDeviceType::A, NONE, "rwm")];
        assert!(!answer(&closed, CHARACTER, 195, 0, READ));
        let open = [rule(true, LinuxDeviceType::A, NONE, "rwm"), rule(false, LinuxDeviceType::B, (8, 0), "w")];
        assert!(answer(&open, CHARACTER, 195, 0, READ | WRITE));
        assert!(answer(&open, BLOCK, 8, 0, READ));
        assert!(!answer(&open, BLOCK, 8, 0, READ | WRITE));
        assert!(!answer(&[], CHARACTER, 195, 0, READ), "a spec without rules allows nothing more");
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for bad in [
            rule(true, LinuxDeviceType::C, (1 << 40, 0), "r"),
            rule(true, LinuxDeviceType::C, (-7, 0), "r"),
            rule(true, LinuxDeviceType::C, (1, 3), "x"),
        ] {
            assert_eq!(Rules::of(&[bad]).expect_err("refused").code, Code::Bundle);
        }
        let many = vec![rule(true, LinuxDeviceType::C, (1, 3), "r"); RULES_MAX + 1];
        assert_eq!(Rules::of(&many).expect_err("refused").code, Code::Bundle);
    }
}
