//! What the suite's containers run where busybox has nothing like it: a web server that the suite takes for nginx or
//! httpd, and the program that says whose rights it has.
//!
//! ```text
//! guest PORT ...   a web server; says `httpd`, and its process number in /var/run/nginx.pid
//! guest uid        `Effective uid: N`
//! ```

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// What every request gets.
const PAGE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";

fn main() -> std::io::Result<()> {
    let word = std::env::args().nth(1).unwrap_or_default();
    if word == "uid" {
        println!("Effective uid: {}", nix::unistd::geteuid());
        return Ok(());
    }
    let port: u16 = word.parse().map_err(std::io::Error::other)?;
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    std::fs::create_dir_all("/var/run")?;
    std::fs::write("/var/run/nginx.pid", format!("{}\n", std::process::id()))?;
    println!("httpd listens on {port}");
    for stream in listener.incoming() {
        // One client that goes away is no reason to end.
        let _ = stream.and_then(|mut stream| {
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone()?);
            while reader.read_line(&mut line)? > 2 {
                line.clear();
            }
            stream.write_all(PAGE)
        });
    }
    Ok(())
}
