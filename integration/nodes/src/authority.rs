//! A certificate authority that lives as long as the hub, and the registry's certificate from it.

use baton_fault::{Code, Fault, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// What a server and its clients need, each as PEM.
pub struct Papers {
    /// The authority's certificate, for clients.
    pub authority: String,
    /// The server's certificate.
    pub certificate: String,
    /// The server's key.
    pub key: String,
}

/// Makes an authority and a certificate for `host`.
pub fn papers(host: &str) -> Result<Papers> {
    make(host).map_err(|err| Fault::new(Code::System, format!("make a certificate for {host}"), err))
}

fn make(host: &str) -> std::result::Result<Papers, rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "test nodes");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_certificate = authority.self_signed(&authority_key)?;
    let key = KeyPair::generate()?;
    let mut server = CertificateParams::new(vec![host.to_owned()])?;
    server.distinguished_name.push(DnType::CommonName, host);
    let certificate = server.signed_by(&key, &Issuer::new(authority, authority_key))?;
    Ok(Papers { authority: authority_certificate.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
}
