//! A fault as containerd's clients see it: a status code that they act on, and the one line.

use baton_fault::{Code, Fault, Result};
use containerd_shim_protos::ttrpc::{self, Code as Status};

/// The status for a fault.
pub fn status(fault: Fault) -> ttrpc::Error {
    let code = match fault.code {
        Code::NotFound => Status::NOT_FOUND,
        Code::Exists => Status::ALREADY_EXISTS,
        Code::Usage | Code::Bundle | Code::Settings | Code::RequestSyntax | Code::RequestUntrusted => {
            Status::INVALID_ARGUMENT
        }
        Code::Unavailable => Status::UNAVAILABLE,
        Code::Deadline => Status::DEADLINE_EXCEEDED,
        Code::NoSpace => Status::RESOURCE_EXHAUSTED,
        Code::System | Code::Engine | Code::Criu | Code::CrLost => Status::UNKNOWN,
        _ => Status::FAILED_PRECONDITION,
    };
    ttrpc::Error::RpcStatus(ttrpc::get_status(code, fault.to_string()))
}

/// What a call gives back; a fault is logged here, once.
pub fn answer<T>(call: &str, outcome: Result<T>) -> ttrpc::Result<T> {
    outcome.map_err(|fault| {
        log::info!("{call}: {fault}");
        status(fault)
    })
}
