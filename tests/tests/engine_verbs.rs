//! `baton` is runc's command line: the same invocations, right and wrong ones, give the same exit statuses and print
//! the same by either.

use baton_tests::machine::Machine;
use baton_tests::until::until;
use serde_json::{Value, json};

const RUNC: &str = "runc --root /run/by-runc";
const BATON: &str = "baton --root /run/by-baton";

/// What both print.
#[derive(Clone, Copy)]
enum Print {
    Nothing,
    /// The same, but for the numbers in it and the blanks between columns.
    Words,
    /// The same.
    Text,
    /// JSON with the same keys and the same kinds of values.
    Json,
    /// Whatever they like, as help for who has mistyped.
    Any,
}
use Print::{Any, Json, Nothing, Text, Words};

/// What both answer to the same line.
type Step = (&'static str, i32, Print);

const CREATED: &[Step] = &[
    ("state job", 1, Nothing),
    ("start job", 1, Nothing),
    ("create --bundle /nowhere job", 1, Nothing),
    ("create --bundle /tmp/job ../job", 1, Nothing),
    ("create --pid-file /tmp/pid job --bundle=/tmp/job", 0, Nothing),
    ("create --bundle /tmp/job job", 1, Nothing),
    ("state job", 0, Json),
    ("resume job", 1, Nothing),
    ("checkpoint --image-path /tmp/none job", 1, Nothing),
    ("start job", 0, Nothing),
    ("start job", 1, Nothing),
];

const LOOKED_AT: &[Step] = &[
    ("state job", 0, Json),
    ("state", 1, Any),
    ("state job job", 1, Any),
    ("state --frob job", 1, Any),
    ("list", 0, Words),
    ("list -q", 0, Text),
    ("list --quiet --format=json", 0, Text),
    ("list --format json", 0, Json),
    ("list --format xml", 1, Nothing),
    ("list job", 1, Any),
    ("ps job", 0, Words),
    ("ps --format json job", 0, Json),
    ("ps job -o pid,comm", 0, Words),
    ("ps --format xml job", 1, Nothing),
    ("ps nosuch", 1, Nothing),
    ("events --stats nosuch", 1, Nothing),
    ("events --interval 0s job", 1, Nothing),
    ("--rootless auto --debug --log /tmp/log state job", 0, Json),
];

const UPDATED: &[Step] = &[
    ("update --memory 64M --memory-swap 96M --pids-limit 77 --cpu-share 512 job", 0, Nothing),
    ("update --cpu-quota 50000 --cpu-period 100000 --cpuset-cpus 0 job", 0, Nothing),
    (
        "exec job cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes",
        0,
        Text,
    ),
    (
        "exec job cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/cpu/cpu.shares /sys/fs/cgroup/cpu/cpu.cfs_quota_us",
        0,
        Text,
    ),
    ("exec job cat /sys/fs/cgroup/cpuset/cpuset.cpus", 0, Text),
    (
        r#"update --resources - job <<< '{"memory": {"limit": 134217728, "swap": 134217728}, "pids": {"limit": 78}}'"#,
        0,
        Nothing,
    ),
    ("exec job cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/pids/pids.max", 0, Text),
    ("update --memory -1 --memory-swap -1 --pids-limit -1 job", 0, Nothing),
    ("exec job cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/pids/pids.max", 0, Text),
    ("update --cpu-share x job", 1, Nothing),
    ("update --memory 1Q job", 1, Nothing),
    ("update --resources /nowhere job", 1, Nothing),
    ("update nosuch", 1, Nothing),
];

const EXECUTED_IN: &[Step] = &[
    ("exec job sh -c 'exit 7'", 7, Nothing),
    ("exec job sh -c 'kill -9 $$'", 137, Nothing),
    ("exec job /nope", 255, Nothing),
    ("exec job", 255, Nothing),
    ("exec nosuch true", 255, Nothing),
    ("exec --user root job true", 255, Nothing),
    ("exec --additional-gids -5 job true", 255, Nothing),
    (
        "exec --user 5:6 --additional-gids 8 --env A=b --env TERM=c --cwd /tmp job sh -c 'id -u; id -g; id -G | grep -qw 8 && echo $A $TERM; pwd'",
        0,
        Text,
    ),
    ("exec --cap CAP_SYS_TIME job grep Cap /proc/self/status", 0, Text),
    ("exec --no-new-privs job grep NoNewPrivs /proc/self/status", 0, Text),
    ("exec --process /tmp/process.json job", 3, Text),
    ("exec --process /nowhere job", 255, Nothing),
    ("exec --detach --pid-file /tmp/exec-pid job sh -c 'exit 9'", 0, Nothing),
    ("exec --detach --tty job true", 255, Nothing),
    ("exec --preserve-fds 1 job sh -c 'cat <&3' 3<<< 'through three'", 0, Text),
    ("pause job", 0, Nothing),
    ("exec job true", 255, Nothing),
    ("state job", 0, Json),
    ("pause job", 1, Nothing),
    ("resume job", 0, Nothing),
    ("resume job", 1, Nothing),
];

const ENDED: &[Step] = &[
    ("delete job", 1, Nothing),
    ("kill job NOSUCH", 1, Nothing),
    ("kill nosuch", 1, Nothing),
    ("kill job KILL", 0, Nothing),
];

const GONE: &[Step] = &[
    ("state job", 0, Json),
    ("kill job TERM", 1, Nothing),
    ("exec job true", 255, Nothing),
    ("start job", 1, Nothing),
    ("pause job", 1, Nothing),
    ("events --stats job", 1, Nothing),
    ("update --pids-limit 5 job", 1, Nothing),
    ("checkpoint --image-path /tmp/none job", 1, Nothing),
    ("delete job", 0, Nothing),
    ("delete job", 1, Nothing),
    ("delete --force job", 0, Nothing),
    ("list --format json", 0, Text),
];

const RUN: &[Step] = &[
    ("run --bundle /tmp/three three", 3, Text),
    ("state three", 1, Nothing),
    ("run --keep --bundle /tmp/three three", 3, Text),
    ("state three", 0, Json),
    ("run --bundle /tmp/three three", 1, Nothing),
    ("delete three", 0, Nothing),
    ("run --bundle /nowhere three", 1, Nothing),
    ("run --console-socket /nowhere --bundle /tmp/three three", 1, Nothing),
    ("run --detach --bundle /tmp/job job", 0, Nothing),
    ("kill --all job KILL", 0, Nothing),
    ("delete --force job", 0, Nothing),
    ("restore --bundle /tmp/job --image-path /nowhere job", 1, Nothing),
    ("spec --bundle /tmp/job", 1, Nothing),
    ("spec job", 1, Any),
    ("features job", 1, Any),
];

fn ask(node: &Machine, engine: &str, line: &str) -> (i32, String) {
    // Containers keep the streams that they are given, so these are files. What a line wants to be read comes last.
    let script = format!("exec 3>&-; {engine} {line} >/tmp/stdout 2>/tmp/stderr");
    let script = if line.contains("<<<") { script } else { format!("{script} </dev/null") };
    let done = node.attempt(&["bash", "-c", &format!("{script}; echo $?; cat /tmp/stdout")]);
    let (status, printed) = done.stdout.split_once('\n').expect("a status");
    (status.parse().expect("a number"), printed.to_owned())
}

fn both(node: &Machine, steps: &[Step]) {
    let differences: Vec<String> = steps.iter().flat_map(|step| difference(node, step)).collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

/// What is not as it should be about the answers to one line.
fn difference(node: &Machine, (line, status, print): &Step) -> Vec<String> {
    let runc = ask(node, RUNC, line);
    let baton = ask(node, BATON, line);
    let said = node.ok(&["cat", "/tmp/stderr"]);
    let mut wrong = Vec::new();
    if (runc.0, baton.0) != (*status, *status) {
        wrong.push(format!("{line}: status {} by runc, {} by baton: {said}", runc.0, baton.0));
    }
    let same = match print {
        Any => true,
        Nothing => runc.1.is_empty() && baton.1.is_empty(),
        Text => baton.1 == runc.1,
        Words => words(&baton.1) == words(&runc.1),
        Json => shape(&parsed(&baton.1)) == shape(&parsed(&runc.1)),
    };
    if !same {
        wrong.push(format!("{line}: runc prints {:?}, baton {:?} and {said:?}", runc.1, baton.1));
    }
    let fails = *status == 1 || *status == 255;
    if fails && said.lines().count() != 1 {
        wrong.push(format!("{line}: one line of baton's was due: {said:?}"));
    }
    wrong
}

fn words(text: &str) -> Vec<Vec<String>> {
    let short = |word: &str| {
        let mut masked: Vec<char> = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        masked.dedup_by(|a, b| *a == '0' && *b == '0');
        masked.into_iter().collect()
    };
    text.lines().map(|line| line.split_whitespace().map(short).collect()).collect()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|err| panic!("{err} in {text}"))
}

fn shape(value: &Value) -> Value {
    match value {
        Value::Object(object) => object.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Array(list) => list.iter().take(1).map(shape).collect(),
        Value::Number(_) => json!(0),
        Value::String(text)
            if ["created", "running", "paused", "stopped", "job", "three", "1.2.1"].contains(&text.as_str()) =>
        {
            value.clone()
        }
        Value::String(_) => json!(""),
        other => other.clone(),
    }
}

fn end(node: &Machine, id: &str) {
    for engine in [RUNC, BATON] {
        until("it ends", || {
            (parsed(&ask(node, engine, &format!("state {id}")).1)["status"] == "stopped").then_some(())
        });
    }
}

#[test]
fn every_verb_answers_as_runc_does() {
    let node = Machine::start("verbs", "none");
    node.bundle("/tmp/job", &["sleep", "1000"], |_| {});
    node.bundle("/tmp/three", &["sh", "-c", "echo three; exit 3"], |_| {});
    let process = json!({
        "args": ["sh", "-c", "echo $WHO; exit 3"], "cwd": "/", "user": { "uid": 0, "gid": 0 },
        "env": ["PATH=/bin", "WHO=me"],
    });
    node.write("/tmp/process.json", process.to_string());
    both(&node, CREATED);
    assert!(node.ok(&["cat", "/tmp/pid"]).parse::<u32>().is_ok());
    both(&node, LOOKED_AT);
    both(&node, UPDATED);
    both(&node, EXECUTED_IN);
    both(&node, ENDED);
    end(&node, "job");
    both(&node, GONE);
    both(&node, RUN);
    assert_eq!(ask(&node, BATON, "list --format json"), (0, "null\n".to_owned()));
}

#[test]
fn what_is_measured_has_the_form_of_runc() {
    let node = Machine::start("verbs-stats", "none");
    node.bundle("/tmp/job", &["sleep", "1000"], |_| {});
    let keys = |value: &Value, without: &[&str]| {
        let object = value.as_object().expect("an object");
        object.keys().filter(|key| !without.contains(&key.as_str())).cloned().collect::<Vec<_>>()
    };
    let measured = [RUNC, BATON].map(|engine| {
        assert_eq!(ask(&node, engine, "run --detach --bundle /tmp/job job").0, 0);
        let (status, text) = ask(&node, engine, "events --stats job");
        assert_eq!(status, 0, "{text}");
        let event = parsed(&text);
        let data = &event["data"];
        // What is 0 is left out, by both.
        let mut form = vec![keys(&event, &[]), keys(data, &[]), keys(&data["cpuset"], &[]), keys(&data["cpu"], &[])];
        form.push(keys(&data["memory"], &["cache"]));
        form.push(keys(&data["memory"]["usage"], &[]));
        form.push(keys(&data["cpu"]["usage"], &[]));
        form.iter_mut().for_each(|keys| keys.sort());
        assert_eq!(data["pids"]["current"], 1);
        assert!(data["memory"]["usage"]["usage"].as_u64().expect("a number") > 0);
        form
    });
    assert_eq!(measured[1], measured[0]);

    // Again and again, until it ends.
    let events = node.begin(&["sh", "-c", &format!("{BATON} events --interval 50ms job >/tmp/events")]);
    let lines = || std::fs::read_to_string(node.root_path("/tmp/events")).map_or(0, |text| text.lines().count());
    until("three measurements", || (lines() >= 3).then_some(()));
    assert_eq!(ask(&node, BATON, "kill job KILL").0, 0);
    assert_eq!(node.end(events).status.code(), Some(0));
    [RUNC, BATON].iter().for_each(|engine| assert_eq!(ask(&node, engine, "delete --force job").0, 0));
}

#[test]
fn spec_and_features_are_those_of_runc_but_for_what_is_not_ours() {
    let node = Machine::start("verbs-spec", "none");
    let [runc, baton] = [RUNC, BATON].map(|engine| {
        let (status, text) = ask(&node, engine, "spec");
        assert_eq!((status, text.as_str()), (0, ""));
        let text = node.ok(&["sh", "-c", "cat config.json && rm config.json"]);
        let mut spec = parsed(&text);
        assert!(spec["hostname"].is_string());
        spec["hostname"] = json!("");
        spec
    });
    assert_eq!(baton, runc);

    let [runc, baton] = [RUNC, BATON].map(|engine| parsed(&ask(&node, engine, "features").1));
    for same in ["/ociVersionMin", "/ociVersionMax", "/hooks", "/linux/namespaces", "/linux/seccomp/operators"] {
        assert_eq!(baton.pointer(same), runc.pointer(same), "{same}");
    }
    let sorted = |value: &Value, pointer: &str| {
        let list = value.pointer(pointer).and_then(Value::as_array).expect("a list").clone();
        let mut list: Vec<String> = list.iter().map(|item| item.as_str().expect("text").to_owned()).collect();
        list.sort();
        list
    };
    for same in ["/linux/capabilities", "/linux/seccomp/actions", "/linux/seccomp/knownFlags"] {
        assert_eq!(sorted(&baton, same), sorted(&runc, same), "{same}");
    }
    assert_eq!(baton["linux"]["mountExtensions"], runc["linux"]["mountExtensions"]);
    assert!(sorted(&baton, "/mountOptions").contains(&"rro".to_owned()));
}

#[test]
fn what_baton_cannot_do_is_refused_by_name() {
    let node = Machine::start("verbs-refused", "none");
    for (line, named) in [
        ("checkpoint --lazy-pages job", "--lazy-pages"),
        ("checkpoint --status-fd 3 job", "--status-fd"),
        ("checkpoint --manage-cgroups-mode full job", "full"),
        ("checkpoint --empty-ns ipc job", "ipc"),
        ("checkpoint --page-server here job", "--page-server"),
        ("restore --lazy-pages job", "--lazy-pages"),
        ("update --l3-cache-schema x job", "--l3-cache-schema"),
        ("create --pidfd-socket /s job", "--pidfd-socket"),
        ("spec --rootless", "--rootless"),
        ("--rootless true state job", "--rootless"),
    ] {
        let command: Vec<&str> = BATON.split(' ').chain(line.split(' ')).collect();
        let said = node.refused(&command, baton_fault::Code::Usage);
        assert!(said.contains(named), "{said}");
    }
}
