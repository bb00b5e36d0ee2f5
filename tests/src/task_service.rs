//! A shim, of whatever runtime, called as containerd calls it: for what no client shows, such as the code of a refusal.

use std::time::Duration;

use containerd_shim_protos::protobuf::well_known_types::any::Any;
use containerd_shim_protos::ttrpc::{self, Code, context};
use containerd_shim_protos::{Client, TaskClient, api};
use serde_json::json;

use crate::machine::Machine;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The Task service of the shim of one container.
pub struct TaskService {
    client: TaskClient,
    id: String,
}

/// What a call came to: its answer, or the code of its refusal.
pub type Outcome<T> = Result<T, Code>;

impl Machine {
    /// The shim of a container.
    ///
    /// # Panics
    /// When it has none.
    pub fn task_service(&self, id: &str) -> TaskService {
        let bundle = format!("/run/containerd/io.containerd.runtime.v2.task/default/{id}");
        let text = std::fs::read_to_string(self.root_path(&format!("{bundle}/bootstrap.json"))).expect("its address");
        let params: serde_json::Value = serde_json::from_str(&text).expect("its address");
        let path = params["address"].as_str().and_then(|address| address.strip_prefix("unix://")).expect("a socket");
        let socket = format!("unix://{}", self.root_path(path).display());
        let client = Client::connect(&socket).expect("connect to the shim");
        TaskService { client: TaskClient::new(client), id: id.to_owned() }
    }
}

fn outcome<T>(call: &str, answered: ttrpc::Result<T>) -> Outcome<T> {
    answered.map_err(|err| match err {
        ttrpc::Error::RpcStatus(status) => {
            eprintln!("{call}: {:?}: {}", status.code(), status.message());
            status.code()
        }
        other => panic!("{call}: {other}"),
    })
}

/// JSON in the message that containerd's clients put it in.
pub fn any(type_url: &str, value: impl Into<Vec<u8>>) -> Any {
    Any { type_url: type_url.to_owned(), value: value.into(), ..Any::default() }
}

impl TaskService {
    /// The same shim, asked for a container of another name.
    #[must_use]
    pub fn about(&self, id: &str) -> TaskService {
        TaskService { client: self.client.clone(), id: id.to_owned() }
    }

    fn ctx(&self) -> context::Context {
        context::with_duration(PATIENCE)
    }

    /// State of the init, or of an exec.
    ///
    /// # Errors
    /// The code of the refusal, as with every call.
    pub fn state(&self, exec: &str) -> Outcome<api::StateResponse> {
        let request = api::StateRequest { id: self.id.clone(), exec_id: exec.to_owned(), ..Default::default() };
        outcome("state", self.client.state(self.ctx(), &request))
    }

    /// Create, in that bundle.
    pub fn create(&self, bundle: &str, options: Option<Any>) -> Outcome<u32> {
        self.create_as(api::CreateTaskRequest {
            bundle: bundle.to_owned(),
            options: options.into(),
            ..Default::default()
        })
    }

    /// Create, in that bundle, from a folder of CRIU's images.
    pub fn create_from(&self, bundle: &str, images: &str) -> Outcome<u32> {
        self.create_as(api::CreateTaskRequest {
            bundle: bundle.to_owned(),
            checkpoint: images.to_owned(),
            ..Default::default()
        })
    }

    fn create_as(&self, request: api::CreateTaskRequest) -> Outcome<u32> {
        let request = api::CreateTaskRequest { id: self.id.clone(), ..request };
        outcome("create", self.client.create(self.ctx(), &request)).map(|response| response.pid)
    }

    /// Start.
    pub fn start(&self, exec: &str) -> Outcome<u32> {
        let request = api::StartRequest { id: self.id.clone(), exec_id: exec.to_owned(), ..Default::default() };
        outcome("start", self.client.start(self.ctx(), &request)).map(|response| response.pid)
    }

    /// Delete; the exit status.
    pub fn delete(&self, exec: &str) -> Outcome<u32> {
        let request = api::DeleteRequest { id: self.id.clone(), exec_id: exec.to_owned(), ..Default::default() };
        outcome("delete", self.client.delete(self.ctx(), &request)).map(|response| response.exit_status)
    }

    /// Kill.
    pub fn kill(&self, exec: &str, signal: u32) -> Outcome<()> {
        let request = api::KillRequest { id: self.id.clone(), exec_id: exec.to_owned(), signal, ..Default::default() };
        outcome("kill", self.client.kill(self.ctx(), &request)).map(drop)
    }

    /// Exec, without streams.
    pub fn exec(&self, exec: &str, command: &[&str]) -> Outcome<()> {
        self.exec_with(exec, command, "", "", false)
    }

    /// Exec with a terminal, or pipes, between FIFOs on the node.
    pub fn exec_with(&self, exec: &str, command: &[&str], input: &str, output: &str, terminal: bool) -> Outcome<()> {
        let process = json!({
            "args": command, "cwd": "/", "user": {"uid": 0, "gid": 0}, "env": ["PATH=/bin:/usr/bin"],
            "terminal": terminal,
        });
        let request = api::ExecProcessRequest {
            id: self.id.clone(),
            exec_id: exec.to_owned(),
            stdin: input.to_owned(),
            stdout: output.to_owned(),
            terminal,
            spec: Some(any("types.containerd.io/opencontainers/runtime-spec/1/Process", process.to_string())).into(),
            ..Default::default()
        };
        outcome("exec", self.client.exec(self.ctx(), &request)).map(drop)
    }

    /// Wait; the exit status.
    pub fn wait(&self, exec: &str) -> Outcome<u32> {
        let request = api::WaitRequest { id: self.id.clone(), exec_id: exec.to_owned(), ..Default::default() };
        outcome("wait", self.client.wait(self.ctx(), &request)).map(|response| response.exit_status)
    }

    /// ResizePty, to that many columns and rows.
    pub fn resize(&self, exec: &str, width: u32, height: u32) -> Outcome<()> {
        let request = api::ResizePtyRequest {
            id: self.id.clone(),
            exec_id: exec.to_owned(),
            width,
            height,
            ..Default::default()
        };
        outcome("resize", self.client.resize_pty(self.ctx(), &request)).map(drop)
    }

    /// CloseIO.
    pub fn close_input(&self, exec: &str) -> Outcome<()> {
        let request =
            api::CloseIORequest { id: self.id.clone(), exec_id: exec.to_owned(), stdin: true, ..Default::default() };
        outcome("close-io", self.client.close_io(self.ctx(), &request)).map(drop)
    }

    /// Pause.
    pub fn pause(&self) -> Outcome<()> {
        let request = api::PauseRequest { id: self.id.clone(), ..Default::default() };
        outcome("pause", self.client.pause(self.ctx(), &request)).map(drop)
    }

    /// Resume.
    pub fn resume(&self) -> Outcome<()> {
        let request = api::ResumeRequest { id: self.id.clone(), ..Default::default() };
        outcome("resume", self.client.resume(self.ctx(), &request)).map(drop)
    }

    /// Update, with OCI's Linux resources.
    pub fn update(&self, resources: &str) -> Outcome<()> {
        let resources = any("types.containerd.io/opencontainers/runtime-spec/1/LinuxResources", resources);
        let request =
            api::UpdateTaskRequest { id: self.id.clone(), resources: Some(resources).into(), ..Default::default() };
        outcome("update", self.client.update(self.ctx(), &request)).map(drop)
    }

    /// Pids, with the names of execs.
    pub fn pids(&self) -> Outcome<Vec<(u32, Option<Any>)>> {
        let request = api::PidsRequest { id: self.id.clone(), ..Default::default() };
        let response = outcome("pids", self.client.pids(self.ctx(), &request))?;
        Ok(response.processes.into_iter().map(|process| (process.pid, process.info.into_option())).collect())
    }

    /// Stats.
    pub fn stats(&self) -> Outcome<Any> {
        let request = api::StatsRequest { id: self.id.clone(), ..Default::default() };
        outcome("stats", self.client.stats(self.ctx(), &request)).map(|response| response.stats.unwrap_or_default())
    }
}
