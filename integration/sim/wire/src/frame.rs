//! Frames with descriptors over a unix stream socket.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use serde::{Serialize, de::DeserializeOwned};

/// The longest frame either side accepts: a claim of [`crate::MOST_RANGES`] ranges fits.
pub const LONGEST_FRAME: usize = 1 << 20;

/// The most descriptors one frame carries: one per card.
const MOST_DESCRIPTORS: usize = 16;

/// One end of a connection to or from the hardware.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
}

impl Channel {
    /// Connects to the hardware's socket.
    pub fn connect(socket: &Path) -> io::Result<Channel> {
        let short = ShortPath::of(socket)?;
        Ok(Channel { stream: UnixStream::connect(&short.path)? })
    }

    /// Listens at `socket`, which must not exist.
    pub fn listen(socket: &Path) -> io::Result<UnixListener> {
        let short = ShortPath::of(socket)?;
        UnixListener::bind(&short.path)
    }

    /// Wraps an accepted connection.
    pub fn over(stream: UnixStream) -> Channel {
        Channel { stream }
    }

    /// A second handle on the same connection.
    pub fn second(&self) -> io::Result<Channel> {
        Ok(Channel { stream: self.stream.try_clone()? })
    }

    /// Sends one message.
    pub fn send<M: Serialize>(&self, message: &M) -> io::Result<()> {
        self.send_with(message, &[])
    }

    /// Sends one message with descriptors.
    pub fn send_with<M: Serialize>(&self, message: &M, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if descriptors.len() > MOST_DESCRIPTORS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one frame"));
        }
        let body = serde_json::to_vec(message).map_err(io::Error::other)?;
        if body.len() > LONGEST_FRAME {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "message longer than a frame"));
        }
        let mut frame = Vec::with_capacity(4 + body.len());
        frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
        frame.extend_from_slice(&body);
        let mut sent = send_first(&self.stream, &frame, descriptors)?;
        while sent < frame.len() {
            sent += send_first(&self.stream, &frame[sent..], &[])?;
        }
        Ok(())
    }

    /// Receives one message and its descriptors; `None` when the other side has closed between frames.
    pub fn receive_with<M: DeserializeOwned>(&self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        let mut head = [0u8; 4];
        let mut descriptors = Vec::new();
        let mut have = 0;
        while have < head.len() {
            let got = receive_some(&self.stream, &mut head[have..], &mut descriptors)?;
            if got == 0 {
                if have == 0 {
                    return Ok(None);
                }
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            have += got;
        }
        let length = u32::from_le_bytes(head) as usize;
        if length > LONGEST_FRAME {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "frame longer than allowed"));
        }
        let mut body = vec![0u8; length];
        (&self.stream).read_exact(&mut body)?;
        let message = serde_json::from_slice(&body).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok(Some((message, descriptors)))
    }

    /// Receives one message; an end of stream is an error.
    pub fn receive<M: DeserializeOwned>(&self) -> io::Result<M> {
        self.receive_with()?.map(|(message, _)| message).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Sends `message` and waits for the answer and its descriptors.
    pub fn ask<Q: Serialize, A: DeserializeOwned>(&self, message: &Q) -> io::Result<(A, Vec<OwnedFd>)> {
        self.send(message)?;
        self.receive_with()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The pid of the process that connected, as seen here; 0 when it has none here.
    pub fn peer_pid(&self) -> i32 {
        self.peer().map_or(0, |peer| peer.pid)
    }

    /// The user of the process that connected, as seen here.
    pub fn peer_uid(&self) -> Option<u32> {
        self.peer().map(|peer| peer.uid)
    }

    fn peer(&self) -> Option<libc::ucred> {
        let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the pointers name a ucred of the length given, alive for the call.
        let answer = unsafe {
            libc::getsockopt(
                self.stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast(),
                &raw mut length,
            )
        };
        (answer == 0).then_some(credentials)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A path that fits into a socket address (108 bytes): the same file through a descriptor of its folder if need be.
struct ShortPath {
    path: PathBuf,
    _folder: Option<std::fs::File>,
}

impl ShortPath {
    fn of(socket: &Path) -> io::Result<ShortPath> {
        let (true, Some(folder), Some(name)) = (socket.as_os_str().len() > 100, socket.parent(), socket.file_name())
        else {
            return Ok(ShortPath { path: socket.to_owned(), _folder: None });
        };
        let folder =
            std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(ShortPath { path, _folder: Some(folder) })
    }
}

/// Room for the control messages of one frame, aligned as `cmsghdr` wants.
#[repr(C, align(8))]
struct Control([u8; 24 + MOST_DESCRIPTORS * 4]);

fn send_first(stream: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 24 + MOST_DESCRIPTORS * 4]);
    // SAFETY: an all-zero msghdr is a valid empty one.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if !descriptors.is_empty() {
        let payload = (descriptors.len() * 4) as u32;
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: CMSG_* only compute from the lengths given; the control buffer holds MOST_DESCRIPTORS descriptors.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(payload) as usize;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(payload) as usize;
            for (index, descriptor) in descriptors.iter().enumerate() {
                libc::CMSG_DATA(first).cast::<i32>().add(index).write_unaligned(descriptor.as_raw_fd());
            }
        }
    }
    loop {
        // SAFETY: the header points at buffers that live through the call.
        let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return Ok(sent as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn receive_some(stream: &UnixStream, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 24 + MOST_DESCRIPTORS * 4]);
    // SAFETY: an all-zero msghdr is a valid empty one.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len();
    let got = loop {
        // SAFETY: the header points at buffers that live through the call.
        let got = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        if got >= 0 {
            break got as usize;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    };
    // SAFETY: the kernel filled the control buffer; CMSG_* walk it within msg_controllen. Each descriptor in an
    // SCM_RIGHTS message is new and ours.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_SOCKET && (*message).cmsg_type == libc::SCM_RIGHTS {
                let count = ((*message).cmsg_len - libc::CMSG_LEN(0) as usize) / 4;
                for index in 0..count {
                    let raw = libc::CMSG_DATA(message).cast::<i32>().add(index).read_unaligned();
                    descriptors.push(OwnedFd::from_raw_fd(raw));
                }
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reply, Request};
    use std::io::Write;

    fn pair() -> (Channel, UnixStream) {
        let (a, b) = UnixStream::pair().expect("pair");
        (Channel::over(a), b)
    }

    #[test]
    fn a_frame_is_its_length_and_json() {
        let (channel, mut raw) = pair();
        channel.send(&Request::Cards).expect("send");
        let mut bytes = [0u8; 11];
        raw.read_exact(&mut bytes).expect("read");
        assert_eq!(&bytes, b"\x07\0\0\0\"Cards\"");
    }

    #[test]
    fn a_giant_length_is_refused_before_anything_is_read() {
        let (channel, mut raw) = pair();
        raw.write_all(&u32::MAX.to_le_bytes()).expect("write");
        let error = channel.receive::<Request>().expect_err("must refuse");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn garbage_is_an_error() {
        let (channel, mut raw) = pair();
        raw.write_all(b"\x03\0\0\0{]x").expect("write");
        assert_eq!(channel.receive::<Request>().expect_err("must refuse").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_close_between_frames_is_no_error_and_within_one_is() {
        let (channel, raw) = pair();
        drop(raw);
        assert!(channel.receive_with::<Request>().expect("clean end").is_none());
        let (channel, mut raw) = pair();
        raw.write_all(b"\x09\0\0\0abc").expect("write");
        drop(raw);
        assert!(channel.receive_with::<Request>().is_err());
    }

    #[test]
    fn descriptors_arrive_with_their_frame() {
        let (a, b) = UnixStream::pair().expect("pair");
        let (a, b) = (Channel::over(a), Channel::over(b));
        let (one, two) = UnixStream::pair().expect("pair");
        a.send_with(&Reply::Done, &[one.as_fd()]).expect("send");
        let (reply, descriptors) = b.receive_with::<Reply>().expect("receive").expect("a frame");
        assert!(matches!(reply, Reply::Done));
        assert_eq!(descriptors.len(), 1);
        drop(one);
        let mut there = std::fs::File::from(descriptors.into_iter().next().expect("one"));
        there.write_all(b"x").expect("write");
        let mut byte = [0u8];
        (&two).read_exact(&mut byte).expect("read");
        assert_eq!(&byte, b"x");
    }
}
