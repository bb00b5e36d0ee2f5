//! `baton-device-plugin`: a device plugin for tests, as one of NVIDIA's is to the kubelet.
//!
//! ```text
//! baton-device-plugin [--resource NAME] [--strategy envvar|volume-mounts|cdi-annotations|cdi-cri]
//!                     [--ids A,B] [--root DRIVER]
//! ```
//! Without `--ids` its devices are the node's cards by UUID. With them they may be anything: MIG instances, a card that
//! is gone.

mod messages;
mod spec;
mod strategy;

/// What `build.rs` made of the kubelet's services.
#[allow(missing_docs, clippy::all)]
mod services {
    pub mod registration {
        include!(concat!(env!("OUT_DIR"), "/v1beta1.Registration.rs"));
    }
    pub mod plugin {
        include!(concat!(env!("OUT_DIR"), "/v1beta1.DevicePlugin.rs"));
    }
}

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use baton_config::Driver;
use baton_devices::Inventory;
use baton_fault::{Attempt, Code, Fault, Result};
use tokio::net::UnixListener;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status};

use crate::messages::{AllocateRequest, AllocateResponse, Device, Devices, Empty, Options, RegisterRequest};
use crate::services::plugin::device_plugin_server::{DevicePlugin, DevicePluginServer};
use crate::services::registration::registration_client::RegistrationClient;
use crate::strategy::Strategy;

/// The kubelet's folder of plugins, and its own socket in it.
const FOLDER: &str = "/var/lib/kubelet/device-plugins";
const KUBELET: &str = "unix:/var/lib/kubelet/device-plugins/kubelet.sock";

struct Arguments {
    resource: String,
    strategy: Strategy,
    ids: Option<Vec<String>>,
    root: PathBuf,
}

struct Plugin {
    ids: Vec<String>,
    strategy: Strategy,
}

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    type ListAndWatchStream = ReceiverStream<std::result::Result<Devices, Status>>;

    async fn options(&self, _: Request<Empty>) -> std::result::Result<Response<Options>, Status> {
        Ok(Response::new(Options {}))
    }

    async fn watch(&self, _: Request<Empty>) -> std::result::Result<Response<Self::ListAndWatchStream>, Status> {
        let devices = self.ids.iter().map(|id| Device { id: id.clone(), health: "Healthy".to_owned() }).collect();
        let (tell, told) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            // It stays open as long as the kubelet listens: its end would say that all devices are gone.
            let _ = tell.send(Ok(Devices { devices })).await;
            tell.closed().await;
        });
        Ok(Response::new(ReceiverStream::new(told)))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> std::result::Result<Response<AllocateResponse>, Status> {
        let containers = request.into_inner().containers;
        let containers = containers.iter().map(|container| self.strategy.response(&container.ids)).collect();
        Ok(Response::new(AllocateResponse { containers }))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<()> {
    let arguments = arguments()?;
    let driver = Driver { root: arguments.root.clone() };
    if arguments.strategy.needs_spec() {
        spec::write(&Inventory::read(&driver)?, &driver)?;
    }
    let ids = match arguments.ids {
        Some(ids) => ids,
        None => Inventory::read(&driver)?.cards.iter().map(|card| card.uuid.to_string()).collect(),
    };
    let name = format!("{}.sock", arguments.resource.replace('/', "_"));
    let socket = Path::new(FOLDER).join(&name);
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).attempt(|| format!("listen on {}", socket.display()))?;
    let plugin = DevicePluginServer::new(Plugin { ids, strategy: arguments.strategy });
    let server = Server::builder().add_service(plugin).serve_with_incoming(UnixListenerStream::new(listener));
    let served = tokio::spawn(server);
    register(RegisterRequest { version: "v1beta1".to_owned(), endpoint: name, resource_name: arguments.resource })
        .await
        .map_err(|err| Fault::new(Code::Unavailable, "register with the kubelet", err))?;
    println!("ready");
    let ended = served.await.map_err(|err| Fault::new(Code::System, "serve the kubelet", err))?;
    ended.map_err(|err| Fault::new(Code::System, "serve the kubelet", err))
}

async fn register(request: RegisterRequest) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let channel = Endpoint::from_static(KUBELET).connect().await?;
    RegistrationClient::new(channel).register(request).await?;
    Ok(())
}

fn arguments() -> Result<Arguments> {
    let mut found = Arguments {
        resource: "nvidia.com/gpu".to_owned(),
        strategy: Strategy::Environment,
        ids: None,
        root: "/run/nvidia/driver".into(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let wrong = |why: &str| Fault::new(Code::Usage, format!("read {word:?}"), why);
        let value = words.next().ok_or_else(|| wrong("it needs a value"))?;
        match word.as_str() {
            "--resource" => found.resource = value,
            "--strategy" => found.strategy = value.parse()?,
            "--ids" => found.ids = Some(value.split(',').map(str::to_owned).collect()),
            "--root" => found.root = value.into(),
            _ => return Err(wrong("it is none of its options")),
        }
    }
    Ok(found)
}
