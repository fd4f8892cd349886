//! What the behaviours share: connections, queues, and waiting for facts.

use std::env;
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lapin::message::{BasicGetMessage, Delivery};
use lapin::options::{BasicGetOptions, BasicPublishOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ErrorKind};

pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Why a behaviour cannot be shown.
#[derive(Debug)]
pub struct Skipped(pub &'static str);

impl fmt::Display for Skipped {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.0)
    }
}

impl Error for Skipped {}

/// The broker's address without a path: a lone slash would be a nameless virtual host.
pub fn url() -> String {
    let url = env::var("INTEROP_URL");
    let url = url.unwrap_or_else(|_| "amqp://guest:guest@127.0.0.1:5672".into());
    url.trim_end_matches('/').to_string()
}

pub async fn connect_to(url: &str) -> lapin::Result<Connection> {
    Connection::connect(url, ConnectionProperties::default()).await
}

pub async fn connect() -> lapin::Result<Connection> {
    connect_to(&url()).await
}

/// Closes as a program would that is done.
pub async fn close(connection: Connection) -> lapin::Result<()> {
    connection.close(200, "done".into()).await
}

pub fn unique_name(kind: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("interop.rust.{kind}.{}-{number}", std::process::id())
}

pub const EXCLUSIVE: QueueDeclareOptions = QueueDeclareOptions {
    passive: false,
    durable: false,
    exclusive: true,
    auto_delete: false,
    nowait: false,
};

pub const PASSIVE: QueueDeclareOptions = QueueDeclareOptions { passive: true, ..EXCLUSIVE };

pub async fn exclusive_queue(channel: &Channel, arguments: FieldTable) -> lapin::Result<String> {
    let queue = channel.queue_declare("".into(), EXCLUSIVE, arguments).await?;
    Ok(queue.name().to_string())
}

pub async fn count(channel: &Channel, queue: &str) -> lapin::Result<u32> {
    let queue = channel.queue_declare(queue.into(), PASSIVE, FieldTable::default()).await?;
    Ok(queue.message_count())
}

/// Asks until there are so many; the limit of the behaviour bounds it.
pub async fn wait_for_count(channel: &Channel, queue: &str, wanted: u32) -> lapin::Result<()> {
    while count(channel, queue).await? != wanted {
        pause().await;
    }
    Ok(())
}

pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

pub async fn send(channel: &Channel, queue: &str, body: &[u8]) -> lapin::Result<()> {
    send_with(channel, "", queue, body, BasicProperties::default()).await
}

pub async fn send_with(
    channel: &Channel,
    exchange: &str,
    key: &str,
    body: &[u8],
    properties: BasicProperties,
) -> lapin::Result<()> {
    let options = BasicPublishOptions::default();
    channel.basic_publish(exchange.into(), key.into(), options, body, properties).await?;
    Ok(())
}

pub async fn try_get(channel: &Channel, queue: &str) -> lapin::Result<Option<Delivery>> {
    let message = channel.basic_get(queue.into(), BasicGetOptions::default()).await?;
    Ok(message.map(|BasicGetMessage { delivery, .. }| delivery))
}

pub async fn get(channel: &Channel, queue: &str) -> lapin::Result<Delivery> {
    loop {
        if let Some(delivery) = try_get(channel, queue).await? {
            return Ok(delivery);
        }
        pause().await;
    }
}

/// Expects that the broker refused it with this code and a text that begins so.
pub fn refused<T>(answer: lapin::Result<T>, code: u16, text: &str) {
    let error = answer.err().expect("what was to be refused went well");
    told(&error, code, text);
}

pub fn told(error: &lapin::Error, code: u16, text: &str) {
    let ErrorKind::ProtocolError(error) = error.kind() else {
        panic!("not the broker's error: {error}")
    };
    assert_eq!(error.get_id(), code, "{error}");
    let message = error.get_message().as_str();
    assert!(message.starts_with(text), "got {message:?}, want {text:?}");
}
