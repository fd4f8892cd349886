//! A message with every type of header and every property.

use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable};
use lapin::BasicProperties;

use crate::client::{self, Outcome};

const MOMENT_S: u64 = 1_700_000_000;

pub fn table<const N: usize>(entries: [(&str, AMQPValue); N]) -> FieldTable {
    let mut made = FieldTable::default();
    for (name, value) in entries {
        made.insert(name.into(), value);
    }
    made
}

pub fn text(words: impl AsRef<[u8]>) -> AMQPValue {
    AMQPValue::LongString(words.as_ref().to_vec().into())
}

fn every_type() -> FieldTable {
    let deep = table([("deeper", text("deepest"))]);
    let nested = table([
        ("deep", AMQPValue::FieldTable(deep)),
        ("empty", AMQPValue::FieldTable(FieldTable::default())),
    ]);
    let items = vec![AMQPValue::LongInt(1), text("two"), AMQPValue::Void];
    table([
        ("bool", AMQPValue::Boolean(true)),
        ("int8", AMQPValue::ShortShortInt(i8::MIN)),
        ("uint8", AMQPValue::ShortShortUInt(u8::MAX)),
        ("int16", AMQPValue::ShortInt(i16::MIN)),
        ("uint16", AMQPValue::ShortUInt(u16::MAX)),
        ("int32", AMQPValue::LongInt(i32::MIN)),
        ("uint32", AMQPValue::LongUInt(u32::MAX)),
        ("int64", AMQPValue::LongLongInt(i64::MIN)),
        ("float", AMQPValue::Float(0.1)),
        ("double", AMQPValue::Double(1e-9)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 314 })),
        ("string", text("grüße")),
        ("text that is not UTF-8", text([0xff, 0xce])),
        ("bytes", AMQPValue::ByteArray(ByteArray::from(vec![0, 0xff, 0xce]))),
        ("timestamp", AMQPValue::Timestamp(MOMENT_S)),
        ("array", AMQPValue::FieldArray(FieldArray::from(items))),
        ("table", AMQPValue::FieldTable(nested)),
        ("nothing", AMQPValue::Void),
    ])
}

pub async fn header_types() -> Outcome {
    let connection = client::connect().await?;
    let channel = connection.create_channel().await?;
    let queue = client::exclusive_queue(&channel, FieldTable::default()).await?;
    let sent = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("utf-8".into())
        .with_headers(every_type())
        .with_delivery_mode(2)
        .with_priority(7)
        .with_correlation_id("c1".into())
        .with_reply_to("somewhere".into())
        .with_expiration("60000".into())
        .with_message_id("m1".into())
        .with_timestamp(MOMENT_S)
        .with_type("greeting".into())
        .with_user_id("guest".into())
        .with_app_id("interop".into())
        .with_cluster_id("cluster".into());
    client::send_with(&channel, "", &queue, b"m", sent.clone()).await?;
    let got = client::get(&channel, &queue).await?;
    assert_eq!(got.properties, sent);
    client::close(connection).await?;
    Ok(())
}
