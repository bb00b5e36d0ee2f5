//! The table of runc's option names, as TOML or JSON, in containerd's spelling (`BinaryName`) or in that of the message
//! (`binary_name`).

use std::path::PathBuf;

use baton_fault::Result;
use serde::Deserialize;

use super::{Options, no_criu_path, refused};

/// What may stand in a table. Keys that are not here are refused by their name.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "PascalCase")]
struct Table {
    #[serde(alias = "no_pivot_root")]
    no_pivot_root: bool,
    #[serde(alias = "no_new_keyring")]
    no_new_keyring: bool,
    #[serde(alias = "shim_cgroup")]
    shim_cgroup: String,
    #[serde(alias = "io_uid")]
    io_uid: u32,
    #[serde(alias = "io_gid")]
    io_gid: u32,
    #[serde(alias = "binary_name")]
    binary_name: String,
    #[serde(alias = "root")]
    root: String,
    #[serde(alias = "criu_path")]
    criu_path: String,
    #[serde(alias = "systemd_cgroup")]
    systemd_cgroup: bool,
    #[serde(alias = "criu_image_path")]
    criu_image_path: String,
    #[serde(alias = "criu_work_path")]
    criu_work_path: String,
    // For containerd, which acts on them itself, or sends them along with the table.
    #[serde(alias = "task_api_address")]
    #[allow(dead_code)]
    task_api_address: String,
    #[serde(alias = "task_api_version")]
    #[allow(dead_code)]
    task_api_version: u32,
    #[serde(alias = "type_url")]
    #[allow(dead_code)]
    type_url: String,
    #[serde(alias = "config_path")]
    #[allow(dead_code)]
    config_path: String,
}

/// Reads a table.
///
/// # Errors
/// `SETTINGS`, naming a key that is not known.
pub fn read(bytes: &[u8]) -> Result<Options> {
    let text = std::str::from_utf8(bytes).map_err(refused)?;
    let table: Table = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(refused)?
    } else {
        toml::from_str(text).map_err(|err| refused(err.message()))?
    };
    if !table.criu_path.is_empty() {
        return Err(no_criu_path());
    }
    let path = |text: String| (!text.is_empty()).then(|| PathBuf::from(text));
    Ok(Options {
        binary_name: path(table.binary_name),
        root: path(table.root),
        systemd_cgroup: table.systemd_cgroup,
        no_pivot_root: table.no_pivot_root,
        no_new_keyring: table.no_new_keyring,
        shim_cgroup: Some(table.shim_cgroup).filter(|cgroup| !cgroup.is_empty()),
        io_uid: table.io_uid,
        io_gid: table.io_gid,
        criu_image_path: path(table.criu_image_path),
        criu_work_path: path(table.criu_work_path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_and_both_forms_say_the_same() {
        let toml = "NoPivotRoot = true\nNoNewKeyring = true\nShimCgroup = '/s'\nIoUid = 1\nIoGid = 2\n\
                    BinaryName = '/b'\nRoot = '/r'\nSystemdCgroup = true\nCriuImagePath = '/i'\nCriuWorkPath = '/w'";
        let json = r#"{"no_pivot_root": true, "no_new_keyring": true, "shim_cgroup": "/s", "io_uid": 1, "io_gid": 2,
            "binary_name": "/b", "root": "/r", "systemd_cgroup": true, "criu_image_path": "/i",
            "criu_work_path": "/w"}"#;
        let wanted = Options {
            binary_name: Some("/b".into()),
            root: Some("/r".into()),
            systemd_cgroup: true,
            no_pivot_root: true,
            no_new_keyring: true,
            shim_cgroup: Some("/s".into()),
            io_uid: 1,
            io_gid: 2,
            criu_image_path: Some("/i".into()),
            criu_work_path: Some("/w".into()),
        };
        assert_eq!(read(toml.as_bytes()).expect("toml"), wanted);
        assert_eq!(read(json.as_bytes()).expect("json"), wanted);
        assert_eq!(read(b"").expect("nothing"), Options::default());
    }

    #[test]
    fn a_key_that_is_not_known_is_refused_by_its_name() {
        for (text, name) in
            [("Frob = 1", "Frob"), ("{\"frob\": 1}", "frob"), ("CriuPath = '/c'", "CriuPath"), ("IoUid = -1", "-1")]
        {
            let fault = read(text.as_bytes()).expect_err(text);
            assert!(fault.code == super::super::Code::Settings && fault.to_string().contains(name), "{fault}");
        }
        assert!(read(b"\xff").is_err());
        assert!(read(b"not a table").is_err());
    }
}
