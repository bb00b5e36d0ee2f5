//! The images that the suite uses, made here and put into the registry that all nodes share, where the node is told to
//! look for every image of any registry.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use baton_fault::{Attempt, Code, Fault, Result};
use baton_nodes::archive::{self, Image};
use baton_nodes::{Node, hub, image};
use serde_json::{Value, json};

/// The image of containers for which the suite needs none in particular.
pub const PLAIN: &str = "conformance/busybox:1";
/// That of a web server.
pub const WEB: &str = "conformance/web:1";

/// The image of everything that is no more than a name: whose user, what it runs.
struct Wanted {
    name: String,
    user: &'static str,
    entrypoint: &'static [&'static str],
}

/// The names are the suite's (pkg/validate/consts.go and its neighbours, cri-tools 1.37.0), without their registry.
fn wanted() -> Vec<Wanted> {
    const CRI: &str = "k8s-staging-cri-tools";
    const E2E: &str = "e2e-test-images";
    let plain = |name: String| Wanted { name, user: "", entrypoint: &["/bin/sh"] };
    let user = |name: &str, user| Wanted { user, ..plain(format!("{CRI}/test-image-{name}:latest")) };
    let server = |name: String, entrypoint| Wanted { entrypoint, ..plain(name) };
    // The suite looks for a process of that name with these words.
    const NGINX: &[&str] = &["/usr/sbin/nginx", "80", "nginx: master process"];
    let mut all = vec![
        plain(PLAIN.to_owned()),
        server(WEB.to_owned(), NGINX),
        server(format!("{E2E}/nginx:1.14-2"), NGINX),
        server(format!("{E2E}/httpd:2.4.39-4"), NGINX),
        server(format!("{CRI}/hostnet-nginx-amd64:latest"), &["/usr/sbin/nginx", "12003", "nginx: master process"]),
        server(format!("{E2E}/nonewprivs:1.3"), &["/nonewprivs", "uid"]),
        plain("pause:3.9".to_owned()),
        user("user-uid", "1002"),
        user("user-username", "www-data"),
        user("user-uid-group", "1003:users"),
        user("user-username-group", "www-data:100"),
        user("predefined-group", "1000"),
    ];
    for name in
        ["latest:latest", "tag:test", "tag:all", "tags:1", "tags:2", "tags:3", "1:latest", "2:latest", "3:latest"]
    {
        all.push(plain(format!("{CRI}/test-image-{name}")));
    }
    all
}

/// Makes the images, each other than those with another name before the tag, and pushes them from `node`.
pub fn provide(node: &Node, bin: &Path) -> Result<()> {
    let layer = layer(&bin.join("baton-conformance-guest"))?;
    let images: Vec<Image> = wanted().iter().map(|wanted| image_of(wanted, &layer)).collect();
    let path = node.root_path("/tmp/conformance.tar");
    File::create(&path)
        .and_then(|file| archive::write(file, &images))
        .attempt(|| format!("write {}", path.display()))?;
    // In a namespace of their own, so that the suite finds none of them there before it has pulled it.
    let ctr = |arguments: &[&str]| node.ok(&[&["ctr", "--namespace", "conformance", "image"], arguments].concat());
    ctr(&["import", "--no-unpack", "/tmp/conformance.tar"])?;
    for image in &images {
        ctr(&["push", &image.name])?;
    }
    let names: Vec<&str> = images.iter().map(|image| image.name.as_str()).collect();
    ctr(&[&["rm", "--sync"], names.as_slice()].concat())?;
    fs::remove_file(&path).attempt(|| format!("remove {}", path.display()))?;
    let hosts = node.root_path("/etc/containerd/certs.d/_default/hosts.toml");
    let folder = hosts.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&hosts, format!("[host.\"https://{}\"]\n", registry())))
        .attempt(|| format!("write {}", hosts.display()))
}

/// The registry, as an image's name begins with.
pub fn registry() -> String {
    format!("{}:{}", hub::REGISTRY, hub::PORT)
}

fn image_of<'a>(wanted: &Wanted, layer: &'a [u8]) -> Image<'a> {
    let family = wanted.name.rsplit_once(':').map_or(wanted.name.as_str(), |(family, _)| family);
    let mut config = json!({
        "Entrypoint": wanted.entrypoint,
        "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "WorkingDir": "/",
        "Labels": { "family": family },
    });
    if !wanted.user.is_empty() {
        config["User"] = Value::from(wanted.user);
    }
    Image { name: format!("{}/{}", registry(), wanted.name), config, layer }
}

/// What is in all of them: the system of every image here, every applet of busybox, and the guest.
fn layer(guest: &Path) -> Result<Vec<u8>> {
    let (parts, busybox) = (image::system()?, image::busybox()?);
    let applets = Command::new(busybox).arg("--list").output().attempt(|| "list the applets of busybox")?;
    let applets = String::from_utf8(applets.stdout).map_err(|err| Fault::new(Code::System, "list applets", err))?;
    let guest = fs::read(guest)
        .attempt(|| format!("read {}", guest.display()))
        .map_err(|fault| fault.advise("run make build"))?;
    let make = || -> std::io::Result<Vec<u8>> {
        let mut layer = image::layer(&parts)?;
        for applet in applets.lines().filter(|applet| *applet != "busybox" && !image::APPLETS.contains(applet)) {
            layer.link(&format!("bin/{applet}"), "bin/busybox")?;
        }
        layer.folder("usr/sbin", 0o755)?;
        layer.file("usr/sbin/nginx", 0o755, &guest)?;
        layer.file("nonewprivs", 0o4755, &guest)?;
        layer.file("bin/pgrep", 0o755, b"#!/bin/sh\nexec pidof \"$1\"\n")?;
        layer.file("bin/ipcs", 0o755, b"#!/bin/sh\nexec tail -n +2 /proc/sysvipc/shm\n")?;
        layer.finish()
    };
    make().attempt(|| "make the images of the suite")
}
