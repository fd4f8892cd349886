/* A message with every type of header and every property, compared by its bytes. */
#include <string.h>

#include "behaviours.h"
#include "client.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define ENTRY(name, kind_, member, ...) \
  {.key = {sizeof(name) - 1, name}, .value = {.kind = kind_, .value.member = __VA_ARGS__}}
#define BYTES(text) {sizeof(text) - 1, text}

static amqp_table_entry_t deeper[] = {ENTRY("deeper", AMQP_FIELD_KIND_UTF8, bytes, BYTES("deepest"))};
static amqp_table_entry_t nested[] = {
    ENTRY("deep", AMQP_FIELD_KIND_TABLE, table, {COUNT(deeper), deeper}),
    ENTRY("empty", AMQP_FIELD_KIND_TABLE, table, {0, NULL}),
};
static amqp_field_value_t items[] = {
    {.kind = AMQP_FIELD_KIND_I32, .value.i32 = 1},
    {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = BYTES("two")},
    {.kind = AMQP_FIELD_KIND_VOID},
};

/* Sorted by name, since RabbitMQ sorts what it delivers. */
static amqp_table_entry_t entries[] = {
    ENTRY("array", AMQP_FIELD_KIND_ARRAY, array, {COUNT(items), items}),
    ENTRY("bool", AMQP_FIELD_KIND_BOOLEAN, boolean, 1),
    ENTRY("bytes", AMQP_FIELD_KIND_BYTES, bytes, BYTES("\0\xff\xce")),
    ENTRY("decimal", AMQP_FIELD_KIND_DECIMAL, decimal, {2, 314}),
    ENTRY("double", AMQP_FIELD_KIND_F64, f64, 1e-9),
    ENTRY("float", AMQP_FIELD_KIND_F32, f32, 0.1f),
    ENTRY("int16", AMQP_FIELD_KIND_I16, i16, -32768),
    ENTRY("int32", AMQP_FIELD_KIND_I32, i32, -2147483647),
    ENTRY("int64", AMQP_FIELD_KIND_I64, i64, -9223372036854775807LL),
    ENTRY("int8", AMQP_FIELD_KIND_I8, i8, -128),
    ENTRY("nothing", AMQP_FIELD_KIND_VOID, boolean, 0),
    ENTRY("string", AMQP_FIELD_KIND_UTF8, bytes, BYTES("gr\xc3\xbc\xc3\x9f" "e \xff")),
    ENTRY("table", AMQP_FIELD_KIND_TABLE, table, {COUNT(nested), nested}),
    ENTRY("timestamp", AMQP_FIELD_KIND_TIMESTAMP, u64, 1700000000),
    ENTRY("uint16", AMQP_FIELD_KIND_U16, u16, 65535),
    ENTRY("uint32", AMQP_FIELD_KIND_U32, u32, 4294967295U),
    ENTRY("uint8", AMQP_FIELD_KIND_U8, u8, 255),
};

static const amqp_basic_properties_t SENT = {
    ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_CONTENT_ENCODING_FLAG | AMQP_BASIC_HEADERS_FLAG |
              AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_PRIORITY_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG |
              AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_EXPIRATION_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
              AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_USER_ID_FLAG |
              AMQP_BASIC_APP_ID_FLAG | AMQP_BASIC_CLUSTER_ID_FLAG,
    .content_type = BYTES("application/json"),
    .content_encoding = BYTES("utf-8"),
    .headers = {COUNT(entries), entries},
    .delivery_mode = AMQP_DELIVERY_PERSISTENT,
    .priority = 7,
    .correlation_id = BYTES("c1"),
    .reply_to = BYTES("somewhere"),
    .expiration = BYTES("60000"),
    .message_id = BYTES("m1"),
    .timestamp = 1700000000,
    .type = BYTES("greeting"),
    .user_id = BYTES("guest"),
    .app_id = BYTES("interop"),
    .cluster_id = BYTES("cluster"),
};

typedef struct {
  char bytes[4096];
  size_t size;
} encoded_t;

static encoded_t encode(amqp_basic_properties_t properties) {
  encoded_t encoded;
  amqp_bytes_t room = {sizeof encoded.bytes, encoded.bytes};
  int size = amqp_encode_properties(AMQP_BASIC_CLASS, &properties, room);
  CHECK(size > 0);
  encoded.size = (size_t)size;
  return encoded;
}

void header_types(void) {
  amqp_connection_state_t connection = connect_broker();
  name_t queue = exclusive_queue(connection, 1, amqp_empty_table);
  CHECK(amqp_basic_publish(connection, 1, amqp_empty_bytes, bytes_of(&queue), 0, 0, &SENT,
                           amqp_cstring_bytes("m")) == AMQP_STATUS_OK);
  got_t got = get(connection, 1, queue);
  CHECK(got.message.properties._flags == SENT._flags);
  CHECK(got.message.properties.headers.num_entries == COUNT(entries));
  encoded_t sent = encode(SENT), received = encode(got.message.properties);
  CHECK(received.size == sent.size);
  CHECK(memcmp(received.bytes, sent.bytes, sent.size) == 0);
  release(&got);
  disconnect(connection);
}
