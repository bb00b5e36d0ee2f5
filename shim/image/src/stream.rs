//! Between a thread that works on bytes and the connection to containerd: a short queue of pieces.

use std::io::{self, Read, Write};

use baton_fault::{Code, Fault, Result};
use tokio::sync::mpsc;

use crate::Lease;
use crate::blob::{Ingest, Labels, PIECE, PIECES_WAITING, damaged};
use crate::digest::{Digest, Hasher};
use crate::oci::Descriptor;
use crate::store::Store;

/// Threads that compress one blob.
const COMPRESSORS: u32 = 2;
/// Largest window, as a power of two, that a blob may ask a reader to keep: level 19 uses 2^23.
const WINDOW_LOG_MAX: u32 = 24;

/// A zstd encoder as all of Baton's blobs are written with.
pub(crate) fn encoder<W: Write>(sink: W, level: i32) -> io::Result<zstd::Encoder<'static, W>> {
    let mut encoder = zstd::Encoder::new(sink, level)?;
    encoder.multithread(COMPRESSORS)?;
    Ok(encoder)
}

/// A zstd decoder that refuses to be made to keep much in memory.
pub(crate) fn decoder<R: Read>(source: R) -> io::Result<zstd::Decoder<'static, io::BufReader<R>>> {
    let mut decoder = zstd::Decoder::new(source)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// The fault for bytes that do not unpack.
pub(crate) fn unpack_fault(what: &str, err: &io::Error) -> Fault {
    damaged(what, &err.to_string())
}

/// Stores what `produce` writes as one blob under the lease. Nothing of it stays when anything fails.
pub(crate) async fn store<F>(
    to: &Store,
    lease: &Lease,
    what: &str,
    media_type: &str,
    labels: Labels,
    produce: F,
) -> Result<Descriptor>
where
    F: FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
{
    let mut ingest = Ingest::open(to, lease, what).await?;
    let (pieces, mut queue) = mpsc::channel(PIECES_WAITING);
    let worker = tokio::task::spawn_blocking(move || {
        let mut sink = PieceWriter { piece: Vec::new(), pieces, hasher: Hasher::default(), size: 0 };
        produce(&mut sink)?;
        sink.finish()
    });
    let mut sent = Ok(());
    while let Some(piece) = queue.recv().await {
        sent = ingest.write(piece).await;
        if sent.is_err() {
            break;
        }
    }
    // Closes the queue, so that the worker ends, whatever it is at.
    drop(queue);
    let made = worker.await;
    sent?;
    match made {
        Ok(Ok((digest, size))) => {
            ingest.commit(&digest, labels).await?;
            Descriptor::new(media_type, digest, i64::try_from(size).unwrap_or(i64::MAX))
        }
        Ok(Err(err)) => {
            ingest.abort().await;
            Err(Fault::io(what, &err))
        }
        Err(err) => {
            ingest.abort().await;
            Err(Fault::new(Code::System, what, err))
        }
    }
}

/// Streams a blob to `consume` and verifies its size and its digest at the end, so nothing that `consume` made may
/// be used before this returns.
pub(crate) async fn fetch<F>(from: &Store, blob: &Descriptor, what: &str, consume: F) -> Result<()>
where
    F: FnOnce(&mut PieceReader) -> Result<()> + Send + 'static,
{
    let mut reader = from.read_stream(blob, what).await?;
    let (pieces, queue) = mpsc::channel(PIECES_WAITING);
    let worker = tokio::task::spawn_blocking(move || {
        let mut source = PieceReader { queue, piece: Vec::new(), at: 0, hasher: Hasher::default() };
        consume(&mut source)?;
        Ok(source.finish())
    });
    let received = loop {
        match reader.next().await {
            Ok(Some(piece)) => {
                // The worker has ended early, for a reason that it tells.
                if pieces.send(piece).await.is_err() {
                    break Ok(());
                }
            }
            Ok(None) => break Ok(()),
            Err(fault) => break Err(fault),
        }
    };
    drop(pieces);
    let made: Result<Digest> = worker.await.unwrap_or_else(|err| Err(Fault::new(Code::System, what, err)));
    // A worker that was cut off complains too; the reason is the connection's.
    received?;
    if made? != blob.digest {
        return Err(damaged(what, &format!("blob {} does not match its digest", blob.digest)));
    }
    Ok(())
}

/// Cuts what is written into pieces and hashes them.
struct PieceWriter {
    piece: Vec<u8>,
    pieces: mpsc::Sender<Vec<u8>>,
    hasher: Hasher,
    size: u64,
}

impl PieceWriter {
    fn finish(mut self) -> io::Result<(Digest, u64)> {
        self.send()?;
        Ok((self.hasher.finish(), self.size))
    }

    fn send(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        self.hasher.update(&self.piece);
        self.size += self.piece.len() as u64;
        let piece = std::mem::take(&mut self.piece);
        self.pieces.blocking_send(piece).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

impl Write for PieceWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.piece.capacity() == 0 {
            self.piece.reserve_exact(PIECE);
        }
        let taken = data.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&data[..taken]);
        if self.piece.len() == PIECE {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads pieces as they come and hashes them.
pub(crate) struct PieceReader {
    queue: mpsc::Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
    hasher: Hasher,
}

impl PieceReader {
    /// Takes what is left and gives the digest of the whole.
    fn finish(mut self) -> Digest {
        while let Some(piece) = self.queue.blocking_recv() {
            self.hasher.update(&piece);
        }
        self.hasher.finish()
    }
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            match self.queue.blocking_recv() {
                Some(piece) => {
                    self.hasher.update(&piece);
                    self.piece = piece;
                    self.at = 0;
                }
                None => return Ok(0),
            }
        }
        let taken = buffer.len().min(self.piece.len() - self.at);
        buffer[..taken].copy_from_slice(&self.piece[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}
