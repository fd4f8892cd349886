//! The behaviours by name; ../support/behaviours.py says what each shows.

use std::env;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_lite::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions,
    BasicRejectOptions, ConfirmSelectOptions, ExchangeBindOptions, ExchangeDeclareOptions,
    ExchangeDeleteOptions, QueueBindOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Consumer, Event, ExchangeKind};

use crate::client::{
    close, connect, connect_to, count, exclusive_queue, get, pause, refused, send, send_with, told,
    try_get, unique_name, url, wait_for_count, Outcome, Skipped, EXCLUSIVE, PASSIVE,
};
use crate::headers::{header_types, table, text};

const MESSAGES: usize = 200;

pub type Run = fn() -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

pub const ALL: &[(&str, Run)] = &[
    ("confirms", || Box::pin(confirms())),
    ("returns", || Box::pin(returns())),
    ("prefetch", || Box::pin(prefetch())),
    ("requeue", || Box::pin(requeue())),
    ("dead_letter", || Box::pin(dead_letter())),
    ("bindings", || Box::pin(bindings())),
    ("header_types", || Box::pin(header_types())),
    ("large_bodies", || Box::pin(large_bodies())),
    ("transactions", || Box::pin(transactions())),
    ("heartbeats", || Box::pin(heartbeats())),
    ("cancel_notify", || Box::pin(cancel_notify())),
    ("exclusive_queue", || Box::pin(exclusive_queues())),
    ("server_named_queue", || Box::pin(server_named_queue())),
    ("blocked", || Box::pin(blocked())),
    ("channel_errors", || Box::pin(channel_errors())),
    ("connection_errors", || Box::pin(connection_errors())),
];

fn none() -> FieldTable {
    FieldTable::default()
}

async fn confirms() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let queue = exclusive_queue(&channel, none()).await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut pending = Vec::new();
    for _ in 0..MESSAGES {
        let options = BasicPublishOptions::default();
        let properties = BasicProperties::default();
        let queue = queue.as_str().into();
        pending.push(channel.basic_publish("".into(), queue, options, b"m", properties).await?);
    }
    for confirm in pending {
        assert!(confirm.await?.is_ack());
    }
    assert_eq!(count(&channel, &queue).await? as usize, MESSAGES);
    Ok(close(connection).await?)
}

async fn returns() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let key = unique_name("nowhere");
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    let properties = BasicProperties::default().with_message_id("m1".into());
    let publish = channel.basic_publish(
        "amq.direct".into(),
        key.as_str().into(),
        options,
        b"back",
        properties,
    );
    let confirmation = publish.await?.await?;
    assert!(confirmation.is_ack());
    let returned = confirmation.take_message().expect("a message that comes with its confirm");
    assert_eq!((returned.reply_code, returned.reply_text.as_str()), (312, "NO_ROUTE"));
    assert_eq!(returned.delivery.exchange.as_str(), "amq.direct");
    assert_eq!(returned.delivery.routing_key.as_str(), key);
    assert_eq!(returned.delivery.data, b"back");
    let id = returned.delivery.properties.message_id().as_ref().map(|id| id.to_string());
    assert_eq!(id.as_deref(), Some("m1"));
    Ok(close(connection).await?)
}

async fn take(
    channel: &Channel,
    queue: &str,
    consumer: &mut Consumer,
    numbers: std::ops::Range<u64>,
) -> Outcome {
    let end = numbers.end;
    for number in numbers {
        let delivery = consumer.next().await.expect("a consumer that goes on")?;
        assert_eq!(delivery.delivery_tag, number + 1);
        assert_eq!(delivery.data, number.to_string().as_bytes());
    }
    assert_eq!(u64::from(count(channel, queue).await?), 10 - end);
    Ok(())
}

async fn prefetch() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let queue = exclusive_queue(&channel, none()).await?;
    for number in 0..10 {
        send(&channel, &queue, number.to_string().as_bytes()).await?;
    }
    wait_for_count(&channel, &queue, 10).await?;
    channel.basic_qos(3, BasicQosOptions::default()).await?;
    let mut consumer = consume(&channel, &queue, "").await?;
    take(&channel, &queue, &mut consumer, 0..3).await?;
    channel.basic_ack(1, BasicAckOptions { multiple: false }).await?;
    take(&channel, &queue, &mut consumer, 3..4).await?;
    channel.basic_ack(4, BasicAckOptions { multiple: true }).await?;
    take(&channel, &queue, &mut consumer, 4..7).await?;
    Ok(close(connection).await?)
}

async fn consume(channel: &Channel, queue: &str, tag: &str) -> lapin::Result<Consumer> {
    let options = BasicConsumeOptions::default();
    channel.basic_consume(queue.into(), tag.into(), options, none()).await
}

async fn requeue() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let queue = exclusive_queue(&channel, none()).await?;
    send(&channel, &queue, b"again").await?;
    let first = get(&channel, &queue).await?;
    assert!(!first.redelivered);
    first.nack(BasicNackOptions { multiple: false, requeue: true }).await?;
    let second = get(&channel, &queue).await?;
    assert!(second.redelivered);
    assert_eq!(second.data, b"again");
    second.reject(BasicRejectOptions { requeue: false }).await?;
    assert!(try_get(&channel, &queue).await?.is_none());
    Ok(close(connection).await?)
}

async fn dead_letter() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let target = exclusive_queue(&channel, none()).await?;
    let arguments =
        table([("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&target))]);
    let source = exclusive_queue(&channel, arguments).await?;
    send(&channel, &source, b"rejected").await?;
    get(&channel, &source).await?.reject(BasicRejectOptions { requeue: false }).await?;
    check_dead(&channel, &target, "rejected", &source).await?;
    let brief = BasicProperties::default().with_expiration("1".into());
    send_with(&channel, "", &source, b"expired", brief).await?;
    check_dead(&channel, &target, "expired", &source).await?;
    Ok(close(connection).await?)
}

async fn check_dead(channel: &Channel, queue: &str, reason: &str, source: &str) -> Outcome {
    let message = get(channel, queue).await?;
    assert_eq!(message.data, reason.as_bytes());
    assert!(message.properties.expiration().is_none());
    let headers = message.properties.headers().as_ref().expect("headers").inner();
    assert_eq!(headers["x-first-death-reason"], text(reason));
    assert_eq!(headers["x-first-death-queue"], text(source));
    let deaths = headers["x-death"].as_array().expect("an array").as_slice();
    assert_eq!(deaths.len(), 1);
    let death = deaths[0].as_field_table().expect("a table").inner();
    assert_eq!(death["count"], AMQPValue::LongLongInt(1));
    assert_eq!(death["reason"], text(reason));
    assert_eq!(death["queue"], text(source));
    assert_eq!(death["exchange"], text(""));
    assert_eq!(death["routing-keys"].as_array().expect("an array").as_slice(), [text(source)]);
    assert!(death["time"].as_timestamp().is_some());
    Ok(())
}

async fn bindings() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let (topic, headers) = (unique_name("topic"), unique_name("headers"));
    for (name, kind) in [(&topic, ExchangeKind::Topic), (&headers, ExchangeKind::Headers)] {
        let options =
            ExchangeDeclareOptions { durable: true, auto_delete: true, ..Default::default() };
        channel.exchange_declare(name.as_str().into(), kind, options, none()).await?;
    }
    let by_topic = exclusive_queue(&channel, none()).await?;
    let by_headers = exclusive_queue(&channel, none()).await?;
    bind(&channel, &by_topic, &topic, "a.*.#", none()).await?;
    let options = ExchangeBindOptions::default();
    let (to, from) = (headers.as_str().into(), topic.as_str().into());
    channel.exchange_bind(to, from, "#".into(), options, none()).await?;
    let one = table([("kind", text("urgent"))]);
    let mut both = one.clone();
    both.insert("size".into(), AMQPValue::LongInt(5));
    let mut wanted = both.clone();
    wanted.insert("x-match".into(), text("all"));
    bind(&channel, &by_headers, &headers, "", wanted).await?;
    let with = |headers: &FieldTable| BasicProperties::default().with_headers(headers.clone());
    send_with(&channel, &topic, "a.b", b"m", with(&both)).await?;
    send_with(&channel, &topic, "a", b"m", with(&both)).await?;
    send_with(&channel, &topic, "a.b.c.d", b"m", with(&one)).await?;
    wait_for_count(&channel, &by_topic, 2).await?;
    wait_for_count(&channel, &by_headers, 2).await?;
    let (queue, exchange) = (by_topic.as_str().into(), topic.as_str().into());
    channel.queue_unbind(queue, exchange, "a.*.#".into(), none()).await?;
    send_with(&channel, &topic, "a.b", b"m", with(&both)).await?;
    wait_for_count(&channel, &by_headers, 3).await?;
    assert_eq!(count(&channel, &by_topic).await?, 2);
    for name in [topic, headers] {
        channel.exchange_delete(name.into(), ExchangeDeleteOptions::default()).await?;
    }
    Ok(close(connection).await?)
}

async fn bind(
    channel: &Channel,
    queue: &str,
    exchange: &str,
    key: &str,
    arguments: FieldTable,
) -> lapin::Result<()> {
    let options = QueueBindOptions::default();
    channel.queue_bind(queue.into(), exchange.into(), key.into(), options, arguments).await
}

async fn large_bodies() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let queue = exclusive_queue(&channel, none()).await?;
    let full = connection.configuration().frame_max() as usize - 8;
    for size in [0, 1, full - 1, full, full + 1, 5 << 20] {
        let body: Vec<u8> = (0..size).map(|place| (place * 31 % 251) as u8).collect();
        send(&channel, &queue, &body).await?;
        let got = get(&channel, &queue).await?.data;
        assert!(got == body, "{size} bytes came back as {} others", got.len());
    }
    Ok(close(connection).await?)
}

async fn transactions() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let observer = connection.create_channel().await?;
    let queue = exclusive_queue(&channel, none()).await?;
    channel.tx_select().await?;
    send(&channel, &queue, b"never").await?;
    channel.tx_rollback().await?;
    send(&channel, &queue, b"kept").await?;
    assert_eq!(count(&observer, &queue).await?, 0);
    channel.tx_commit().await?;
    assert_eq!(count(&observer, &queue).await?, 1);
    assert_eq!(get(&channel, &queue).await?.data, b"kept");
    Ok(close(connection).await?)
}

async fn heartbeats() -> Outcome {
    let connection = connect_to(&format!("{}/%2f?heartbeat=1", url())).await?;
    assert_eq!(connection.configuration().heartbeat(), 1);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(connection.status().connected());
    let channel = connection.create_channel().await?;
    exclusive_queue(&channel, none()).await?;
    Ok(close(connection).await?)
}

async fn cancel_notify() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let queue = exclusive_queue(&channel, none()).await?;
    let mut consumer = consume(&channel, &queue, "mine").await?;
    channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
    assert!(consumer.next().await.is_none());
    exclusive_queue(&channel, none()).await?;
    Ok(close(connection).await?)
}

async fn exclusive_queues() -> Outcome {
    let (owner, connection) = (connect().await?, connect().await?);
    let name = unique_name("exclusive");
    let owned = owner.create_channel().await?;
    owned.queue_declare(name.as_str().into(), EXCLUSIVE, none()).await?;
    let locked = format!(
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'"
    );
    let channel = connection.create_channel().await?;
    refused(consume(&channel, &name, "").await, 405, &locked);
    let channel = connection.create_channel().await?;
    refused(channel.queue_declare(name.as_str().into(), EXCLUSIVE, none()).await, 405, &locked);
    let channel = connection.create_channel().await?;
    let purge = channel.queue_purge(name.as_str().into(), QueuePurgeOptions::default());
    refused(purge.await, 405, &locked);
    close(owner).await?;
    let channel = connection.create_channel().await?;
    let gone = format!("NOT_FOUND - no queue '{name}' in vhost '/'");
    refused(channel.queue_declare(name.into(), PASSIVE, none()).await, 404, &gone);
    Ok(close(connection).await?)
}

async fn server_named_queue() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let first = exclusive_queue(&channel, none()).await?;
    let second = exclusive_queue(&channel, none()).await?;
    assert!(first.starts_with("amq.gen-") && first.len() == 8 + 22, "named {first}");
    assert_ne!(first, second);
    // No name is the queue this channel declared last.
    bind(&channel, "", "amq.fanout", "", none()).await?;
    send_with(&channel, "amq.fanout", "", b"m", BasicProperties::default()).await?;
    wait_for_count(&channel, &second, 1).await?;
    assert_eq!(count(&channel, &first).await?, 0);
    Ok(close(connection).await?)
}

async fn blocked() -> Outcome {
    let Ok(url) = env::var("INTEROP_BLOCKED_URL") else {
        return Err(Skipped("no broker that is low on memory").into());
    };
    let connection = connect_to(url.trim_end_matches('/')).await?;
    let mut events = Box::pin(connection.events_listener());
    let channel = connection.create_channel().await?;
    while !connection.status().blocked() {
        send_with(&channel, "amq.fanout", "", b"m", BasicProperties::default()).await?;
        pause().await;
    }
    loop {
        if let Some(Event::ConnectionBlocked(reason)) = events.next().await {
            assert_eq!(reason, "low on memory");
            // Closing would wait for an answer that a blocked connection does not get.
            std::mem::forget(connection);
            return Ok(());
        }
    }
}

async fn channel_errors() -> Outcome {
    let connection = connect().await?;
    let (missing, queue) = (unique_name("missing"), unique_name("errors"));
    let expires = table([("x-expires", AMQPValue::LongInt(60_000))]);
    let owned = connection.create_channel().await?;
    owned.queue_declare(queue.as_str().into(), EXCLUSIVE, expires).await?;

    let channel = connection.create_channel().await?;
    let no_queue = format!("NOT_FOUND - no queue '{missing}' in vhost '/'");
    refused(count(&channel, &missing).await, 404, &no_queue);
    assert!(!channel.status().connected());
    let channel = connection.create_channel().await?;
    let no_exchange = format!("NOT_FOUND - no exchange '{missing}' in vhost '/'");
    refused(bind(&channel, &queue, &missing, "", none()).await, 404, &no_exchange);
    let channel = connection.create_channel().await?;
    let other = format!(
        "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue '{queue}' in vhost '/': \
         received none but current is the value '60000' of type 'signedint'"
    );
    refused(channel.queue_declare(queue.as_str().into(), EXCLUSIVE, none()).await, 406, &other);
    let channel = connection.create_channel().await?;
    // Both are on their way before the answer to the first can come.
    let ack = channel.basic_ack(99, BasicAckOptions::default());
    let qos = channel.basic_qos(1, BasicQosOptions::default());
    let unknown = "PRECONDITION_FAILED - unknown delivery tag 99";
    let (_, answer) = futures_lite::future::zip(ack, qos).await;
    refused(answer, 406, unknown);
    let channel = connection.create_channel().await?;
    let reserved = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'";
    refused(channel.queue_declare("amq.mine".into(), EXCLUSIVE, none()).await, 403, reserved);
    assert_eq!(count(&owned, &queue).await?, 0);
    Ok(close(connection).await?)
}

async fn connection_errors() -> Outcome {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let queue = exclusive_queue(&channel, none()).await?;
    let _first = consume(&channel, &queue, "twice").await?;
    let reused = "NOT_ALLOWED - attempt to reuse consumer tag 'twice'";
    refused(consume(&channel, &queue, "twice").await, 530, reused);
    assert!(!connection.status().connected());

    let connection = connect().await?;
    let mut events = Box::pin(connection.events_listener());
    let channel = connection.create_channel().await?;
    let options = BasicPublishOptions { immediate: true, ..Default::default() };
    let properties = BasicProperties::default();
    channel.basic_publish("".into(), "q".into(), options, b"m", properties).await?;
    loop {
        if let Some(Event::Error(error)) = events.next().await {
            told(&error, 540, "NOT_IMPLEMENTED - immediate=true");
            break;
        }
    }

    let wrong = connect_to(&url().replace(":guest@", ":not-the-password@")).await;
    refused(wrong, 403, "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN");
    let nowhere = connect_to(&format!("{}/interop-missing", url())).await;
    refused(nowhere, 530, "NOT_ALLOWED - vhost interop-missing not found");
    Ok(())
}
