//! Events for containerd, published in the order in which they were said, by one task; saying one never waits.

use containerd_shim::asynchronous::publisher::RemotePublisher;
use containerd_shim_protos::protobuf::MessageDyn;
use containerd_shim_protos::ttrpc::context;
use tokio::sync::{mpsc, oneshot};

enum Item {
    Event(&'static str, Box<dyn MessageDyn>),
    Flush(oneshot::Sender<()>),
}

/// Where the parts of the shim say what happened.
#[derive(Clone)]
pub struct Events(mpsc::UnboundedSender<Item>);

impl Events {
    /// Starts the task that publishes through `publisher` for the containers of `namespace`.
    pub fn start(publisher: RemotePublisher, namespace: String) -> Events {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(item) = receiver.recv().await {
                match item {
                    Item::Event(topic, event) => {
                        // containerd may be restarting: the publisher tries again by itself, an event that
                        // cannot be queued at all is only worth a line.
                        let ctx = context::with_duration(std::time::Duration::from_secs(5));
                        if let Err(err) = publisher.publish(ctx, topic, &namespace, event).await {
                            log::warn!("event {topic} not published: {err}");
                        }
                    }
                    Item::Flush(done) => {
                        // Whoever asked may have gone.
                        let _ = done.send(());
                    }
                }
            }
        });
        Events(sender)
    }

    /// Says that something happened.
    pub fn say(&self, topic: &'static str, event: impl MessageDyn) {
        if self.0.send(Item::Event(topic, Box::new(event))).is_err() {
            log::warn!("event {topic} after the end of the publisher");
        }
    }

    /// Waits until everything said so far has been handed over.
    pub async fn flush(&self) {
        let (done, waiting) = oneshot::channel();
        if self.0.send(Item::Flush(done)).is_ok() {
            // An error means that the publisher ended: nothing left to wait for.
            let _ = waiting.await;
        }
    }
}
