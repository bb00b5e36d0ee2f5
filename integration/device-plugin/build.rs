//! Makes the client of the kubelet's registry and the server that the kubelet calls.

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

fn main() {
    let registration = Service::builder()
        .name("Registration")
        .package("v1beta1")
        .method(method("register", "Register", "RegisterRequest", "Empty").build())
        .build();
    let plugin = Service::builder()
        .name("DevicePlugin")
        .package("v1beta1")
        .method(method("options", "GetDevicePluginOptions", "Empty", "Options").build())
        .method(method("watch", "ListAndWatch", "Empty", "Devices").server_streaming().build())
        .method(method("allocate", "Allocate", "AllocateRequest", "AllocateResponse").build())
        .build();
    Builder::new().build_client(true).build_server(true).compile(&[registration, plugin]);
}

fn method(name: &str, route: &str, input: &str, output: &str) -> MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("crate::messages::{input}"))
        .output_type(format!("crate::messages::{output}"))
        .codec_path("tonic_prost::ProstCodec")
}
