#include "behaviours.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TABLE(array) ((amqp_table_t){(int)COUNT(array), array})
#define TEXT_SIZE 300

enum { MESSAGES = 200, NO_ROUTE = 312 };

static void confirms(void) {
  amqp_connection_state_t connection = connect_broker();
  name_t queue = exclusive_queue(connection, 1, amqp_empty_table);
  amqp_confirm_select(connection, 1);
  check_reply(connection);
  for (int i = 0; i < MESSAGES; i++) publish(connection, 1, "", bytes_of(&queue), "m");

  uint64_t confirmed = 0;
  while (confirmed < MESSAGES) {
    amqp_frame_t frame = wait_method(connection, AMQP_BASIC_ACK_METHOD);
    amqp_basic_ack_t *ack = frame.payload.method.decoded;
    CHECK(ack->multiple ? ack->delivery_tag > confirmed : ack->delivery_tag == confirmed + 1);
    confirmed = ack->delivery_tag;
  }
  CHECK(message_count(connection, 1, queue) == MESSAGES);
  disconnect(connection);
}

static void returns(void) {
  amqp_connection_state_t connection = connect_broker();
  amqp_confirm_select(connection, 1);
  check_reply(connection);
  name_t key = unique_name("nowhere");
  amqp_basic_properties_t properties = {
      ._flags = AMQP_BASIC_MESSAGE_ID_FLAG,
      .message_id = amqp_cstring_bytes("m1"),
  };
  CHECK(amqp_basic_publish(connection, 1, amqp_cstring_bytes("amq.direct"), bytes_of(&key), 1, 0, &properties,
                           amqp_cstring_bytes("back")) == AMQP_STATUS_OK);
  amqp_frame_t frame;
  CHECK(amqp_simple_wait_frame(connection, &frame) == AMQP_STATUS_OK);
  CHECK(frame.payload.method.id == AMQP_BASIC_RETURN_METHOD);
  amqp_basic_return_t *returned = frame.payload.method.decoded;
  CHECK(returned->reply_code == NO_ROUTE);
  CHECK(bytes_equal(returned->reply_text, "NO_ROUTE"));
  CHECK(bytes_equal(returned->exchange, "amq.direct"));
  CHECK(bytes_equal(returned->routing_key, key.text));
  amqp_message_t message;
  CHECK(amqp_read_message(connection, 1, &message, 0).reply_type == AMQP_RESPONSE_NORMAL);
  CHECK(bytes_equal(message.body, "back"));
  CHECK(bytes_equal(message.properties.message_id, "m1"));
  amqp_destroy_message(&message);
  wait_method(connection, AMQP_BASIC_ACK_METHOD);
  disconnect(connection);
}

static void take(amqp_connection_state_t connection, name_t queue, int *taken, int count) {
  for (int i = 0; i < count; i++) {
    amqp_envelope_t envelope;
    CHECK(amqp_consume_message(connection, &envelope, NULL, 0).reply_type == AMQP_RESPONSE_NORMAL);
    CHECK(envelope.delivery_tag == (uint64_t)++*taken);
    CHECK(*(char *)envelope.message.body.bytes == '0' + *taken - 1);
    amqp_destroy_envelope(&envelope);
  }
  CHECK(message_count(connection, 1, queue) == 10 - *taken);
}

static void prefetch(void) {
  amqp_connection_state_t connection = connect_broker();
  name_t queue = exclusive_queue(connection, 1, amqp_empty_table);
  for (int i = 0; i < 10; i++) publish(connection, 1, "", bytes_of(&queue), (char[]){(char)('0' + i), 0});
  wait_for_count(connection, 1, queue, 10);
  amqp_basic_qos(connection, 1, 0, 3, 0);
  check_reply(connection);
  amqp_basic_consume(connection, 1, bytes_of(&queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
  check_reply(connection);
  int taken = 0;
  take(connection, queue, &taken, 3);
  CHECK(amqp_basic_ack(connection, 1, 1, 0) == AMQP_STATUS_OK);
  take(connection, queue, &taken, 1);
  CHECK(amqp_basic_ack(connection, 1, 4, 1) == AMQP_STATUS_OK);
  take(connection, queue, &taken, 3);
  disconnect(connection);
}

static void requeue(void) {
  amqp_connection_state_t connection = connect_broker();
  name_t queue = exclusive_queue(connection, 1, amqp_empty_table);
  publish(connection, 1, "", bytes_of(&queue), "again");
  got_t first = get(connection, 1, queue);
  CHECK(!first.redelivered);
  CHECK(amqp_basic_nack(connection, 1, first.tag, 0, 1) == AMQP_STATUS_OK);
  got_t second = get(connection, 1, queue);
  CHECK(second.redelivered);
  CHECK(bytes_equal(second.body, "again"));
  CHECK(amqp_basic_reject(connection, 1, second.tag, 0) == AMQP_STATUS_OK);
  got_t none;
  CHECK(!try_get(connection, 1, queue, &none));
  release(&first);
  release(&second);
  disconnect(connection);
}

static void check_dead(amqp_connection_state_t connection, name_t queue, const char *reason, name_t source) {
  got_t got = get(connection, 1, queue);
  CHECK(bytes_equal(got.body, reason));
  CHECK(!(got.message.properties._flags & AMQP_BASIC_EXPIRATION_FLAG));
  const amqp_table_t *headers = &got.message.properties.headers;
  CHECK(table_has_text(headers, "x-first-death-reason", reason));
  CHECK(table_has_text(headers, "x-first-death-queue", source.text));
  const amqp_array_t *deaths = &field_of(headers, "x-death")->value.array;
  CHECK(deaths->num_entries == 1);
  const amqp_table_t *death = &deaths->entries[0].value.table;
  CHECK(field_of(death, "count")->kind == AMQP_FIELD_KIND_I64);
  CHECK(field_of(death, "count")->value.i64 == 1);
  CHECK(field_of(death, "time")->kind == AMQP_FIELD_KIND_TIMESTAMP);
  CHECK(table_has_text(death, "reason", reason));
  CHECK(table_has_text(death, "queue", source.text));
  CHECK(table_has_text(death, "exchange", ""));
  const amqp_array_t *keys = &field_of(death, "routing-keys")->value.array;
  CHECK(keys->num_entries == 1);
  CHECK(bytes_equal(keys->entries[0].value.bytes, source.text));
  release(&got);
}

static void dead_letter(void) {
  amqp_connection_state_t connection = connect_broker();
  name_t target = exclusive_queue(connection, 1, amqp_empty_table);
  amqp_table_entry_t arguments[] = {
      text_entry("x-dead-letter-exchange", amqp_empty_bytes),
      text_entry("x-dead-letter-routing-key", bytes_of(&target)),
  };
  name_t source = exclusive_queue(connection, 1, TABLE(arguments));
  publish(connection, 1, "", bytes_of(&source), "rejected");
  got_t got = get(connection, 1, source);
  CHECK(amqp_basic_reject(connection, 1, got.tag, 0) == AMQP_STATUS_OK);
  release(&got);
  check_dead(connection, target, "rejected", source);

  amqp_basic_properties_t brief = {
      ._flags = AMQP_BASIC_EXPIRATION_FLAG,
      .expiration = amqp_cstring_bytes("1"),
  };
  CHECK(amqp_basic_publish(connection, 1, amqp_empty_bytes, bytes_of(&source), 0, 0, &brief,
                           amqp_cstring_bytes("expired")) == AMQP_STATUS_OK);
  check_dead(connection, target, "expired", source);
  disconnect(connection);
}

static void publish_with(amqp_connection_state_t connection, name_t exchange, const char *key, amqp_table_t headers) {
  amqp_basic_properties_t properties = {._flags = AMQP_BASIC_HEADERS_FLAG, .headers = headers};
  CHECK(amqp_basic_publish(connection, 1, bytes_of(&exchange), amqp_cstring_bytes(key), 0, 0, &properties,
                           amqp_cstring_bytes("m")) == AMQP_STATUS_OK);
}

static void declare_exchange(amqp_connection_state_t connection, name_t name, const char *type) {
  amqp_exchange_declare(connection, 1, bytes_of(&name), amqp_cstring_bytes(type), 0, 1, 1, 0, amqp_empty_table);
  check_reply(connection);
}

static void bindings(void) {
  amqp_connection_state_t connection = connect_broker();
  name_t topic = unique_name("topic"), headers = unique_name("headers");
  declare_exchange(connection, topic, "topic");
  declare_exchange(connection, headers, "headers");
  name_t by_topic = exclusive_queue(connection, 1, amqp_empty_table);
  name_t by_headers = exclusive_queue(connection, 1, amqp_empty_table);
  amqp_bytes_t pattern = amqp_cstring_bytes("a.*.#");
  amqp_queue_bind(connection, 1, bytes_of(&by_topic), bytes_of(&topic), pattern, amqp_empty_table);
  check_reply(connection);
  amqp_exchange_bind(connection, 1, bytes_of(&headers), bytes_of(&topic), amqp_cstring_bytes("#"),
                     amqp_empty_table);
  check_reply(connection);
  amqp_table_entry_t match[] = {
      text_entry("kind", amqp_cstring_bytes("urgent")),
      integer_entry("size", 5),
      text_entry("x-match", amqp_cstring_bytes("all")),
  };
  amqp_queue_bind(connection, 1, bytes_of(&by_headers), bytes_of(&headers), amqp_empty_bytes, TABLE(match));
  check_reply(connection);

  amqp_table_t both = {2, match}, one = {1, match};
  publish_with(connection, topic, "a.b", both);
  publish_with(connection, topic, "a", both);
  publish_with(connection, topic, "a.b.c.d", one);
  wait_for_count(connection, 1, by_topic, 2);
  wait_for_count(connection, 1, by_headers, 2);
  amqp_queue_unbind(connection, 1, bytes_of(&by_topic), bytes_of(&topic), pattern, amqp_empty_table);
  check_reply(connection);
  publish_with(connection, topic, "a.b", both);
  wait_for_count(connection, 1, by_headers, 3);
  CHECK(message_count(connection, 1, by_topic) == 2);
  amqp_exchange_delete(connection, 1, bytes_of(&topic), 0);
  check_reply(connection);
  amqp_exchange_delete(connection, 1, bytes_of(&headers), 0);
  check_reply(connection);
  disconnect(connection);
}

static void large_bodies(void) {
  amqp_connection_state_t connection = connect_broker();
  name_t queue = exclusive_queue(connection, 1, amqp_empty_table);
  size_t full = (size_t)amqp_get_frame_max(connection) - 8;
  size_t sizes[] = {0, 1, full - 1, full, full + 1, 5 << 20};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    amqp_bytes_t body = amqp_bytes_malloc(sizes[i]);
    for (size_t k = 0; k < body.len; k++) ((char *)body.bytes)[k] = (char)rand();
    CHECK(amqp_basic_publish(connection, 1, amqp_empty_bytes, bytes_of(&queue), 0, 0, NULL, body) ==
          AMQP_STATUS_OK);
    got_t got = get(connection, 1, queue);
    CHECK(got.body.len == body.len);
    CHECK(body.len == 0 || memcmp(got.body.bytes, body.bytes, body.len) == 0);
    release(&got);
    amqp_bytes_free(body);
    amqp_maybe_release_buffers(connection);
  }
  disconnect(connection);
}

static void transactions(void) {
  amqp_connection_state_t connection = connect_broker();
  open_channel(connection, 2);
  name_t queue = exclusive_queue(connection, 1, amqp_empty_table);
  amqp_tx_select(connection, 1);
  check_reply(connection);
  publish(connection, 1, "", bytes_of(&queue), "never");
  amqp_tx_rollback(connection, 1);
  check_reply(connection);
  publish(connection, 1, "", bytes_of(&queue), "kept");
  CHECK(message_count(connection, 2, queue) == 0);
  amqp_tx_commit(connection, 1);
  check_reply(connection);
  CHECK(message_count(connection, 2, queue) == 1);
  got_t got = get(connection, 1, queue);
  CHECK(bytes_equal(got.body, "kept"));
  release(&got);
  disconnect(connection);
}

static void heartbeats(void) {
  amqp_connection_state_t connection = connect_to(broker_url(), 1);
  open_channel(connection, 1);
  CHECK(amqp_get_heartbeat(connection) == 1);
  /* The library sends and takes heartbeats while it waits. */
  amqp_frame_t frame;
  CHECK(amqp_simple_wait_frame_noblock(connection, &frame, &(struct timeval){.tv_sec = 4}) ==
        AMQP_STATUS_TIMEOUT);
  exclusive_queue(connection, 1, amqp_empty_table);
  disconnect(connection);
}

static void cancel_notify(void) {
  amqp_connection_state_t connection = connect_broker();
  open_channel(connection, 2);
  name_t queue = exclusive_queue(connection, 1, amqp_empty_table);
  amqp_basic_consume(connection, 1, bytes_of(&queue), amqp_cstring_bytes("mine"), 0, 0, 0, amqp_empty_table);
  check_reply(connection);
  amqp_queue_delete(connection, 2, bytes_of(&queue), 0, 0);
  check_reply(connection);
  amqp_frame_t frame = wait_method(connection, AMQP_BASIC_CANCEL_METHOD);
  amqp_basic_cancel_t *cancel = frame.payload.method.decoded;
  CHECK(frame.channel == 1);
  CHECK(bytes_equal(cancel->consumer_tag, "mine"));
  exclusive_queue(connection, 1, amqp_empty_table);
  disconnect(connection);
}

static void exclusive_queues(void) {
  amqp_connection_state_t owner = connect_broker(), connection = connect_broker();
  name_t name = unique_name("exclusive");
  amqp_queue_declare(owner, 1, bytes_of(&name), 0, 0, 1, 0, amqp_empty_table);
  check_reply(owner);
  char text[TEXT_SIZE];
  snprintf(text, sizeof text,
           "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '%s' in vhost '/'", name.text);
  amqp_basic_consume(connection, 1, bytes_of(&name), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
  expect_channel_error(connection, 1, AMQP_RESOURCE_LOCKED, text);
  amqp_queue_declare(connection, 1, bytes_of(&name), 0, 0, 1, 0, amqp_empty_table);
  expect_channel_error(connection, 1, AMQP_RESOURCE_LOCKED, text);
  amqp_queue_purge(connection, 1, bytes_of(&name));
  expect_channel_error(connection, 1, AMQP_RESOURCE_LOCKED, text);
  disconnect(owner);
  snprintf(text, sizeof text, "NOT_FOUND - no queue '%s' in vhost '/'", name.text);
  amqp_queue_declare(connection, 1, bytes_of(&name), 1, 0, 0, 0, amqp_empty_table);
  expect_channel_error(connection, 1, AMQP_NOT_FOUND, text);
  disconnect(connection);
}

static void server_named_queue(void) {
  amqp_connection_state_t connection = connect_broker();
  name_t first = exclusive_queue(connection, 1, amqp_empty_table);
  name_t second = exclusive_queue(connection, 1, amqp_empty_table);
  CHECK(strncmp(first.text, "amq.gen-", 8) == 0 && strlen(first.text) == 8 + 22);
  CHECK(strcmp(first.text, second.text) != 0);
  /* No name is the queue this channel declared last. */
  amqp_queue_bind(connection, 1, amqp_empty_bytes, amqp_cstring_bytes("amq.fanout"), amqp_empty_bytes,
                  amqp_empty_table);
  check_reply(connection);
  publish(connection, 1, "amq.fanout", amqp_empty_bytes, "m");
  wait_for_count(connection, 1, second, 1);
  CHECK(message_count(connection, 1, first) == 0);
  disconnect(connection);
}

static void blocked(void) {
  const char *url = getenv("INTEROP_BLOCKED_URL");
  if (url == NULL) skip("no broker that is low on memory");
  amqp_connection_state_t connection = connect_to(url, 0);
  open_channel(connection, 1);
  for (;;) {
    publish(connection, 1, "amq.fanout", amqp_empty_bytes, "m");
    amqp_frame_t frame;
    int status = amqp_simple_wait_frame_noblock(connection, &frame, &(struct timeval){.tv_usec = 50000});
    if (status == AMQP_STATUS_TIMEOUT) continue;
    CHECK(status == AMQP_STATUS_OK);
    CHECK(frame.channel == 0 && frame.payload.method.id == AMQP_CONNECTION_BLOCKED_METHOD);
    amqp_connection_blocked_t *told = frame.payload.method.decoded;
    CHECK(bytes_equal(told->reason, "low on memory"));
    return; /* Closing would wait for an answer that a blocked connection does not get. */
  }
}

static void channel_errors(void) {
  amqp_connection_state_t connection = connect_broker();
  name_t missing = unique_name("missing"), queue = unique_name("errors");
  amqp_table_entry_t expires[] = {integer_entry("x-expires", 60000)};
  amqp_queue_declare(connection, 1, bytes_of(&queue), 0, 0, 1, 0, TABLE(expires));
  check_reply(connection);

  char text[TEXT_SIZE];
  snprintf(text, sizeof text, "NOT_FOUND - no queue '%s' in vhost '/'", missing.text);
  amqp_queue_declare(connection, 1, bytes_of(&missing), 1, 0, 0, 0, amqp_empty_table);
  expect_channel_error(connection, 1, AMQP_NOT_FOUND, text);
  snprintf(text, sizeof text, "NOT_FOUND - no exchange '%s' in vhost '/'", missing.text);
  amqp_queue_bind(connection, 1, bytes_of(&queue), bytes_of(&missing), amqp_empty_bytes, amqp_empty_table);
  expect_channel_error(connection, 1, AMQP_NOT_FOUND, text);
  snprintf(text, sizeof text,
           "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue '%s' in vhost '/': received none but"
           " current is the value '60000' of type 'signedint'",
           queue.text);
  amqp_queue_declare(connection, 1, bytes_of(&queue), 0, 0, 1, 0, amqp_empty_table);
  expect_channel_error(connection, 1, AMQP_PRECONDITION_FAILED, text);
  CHECK(amqp_basic_ack(connection, 1, 99, 0) == AMQP_STATUS_OK);
  amqp_basic_qos(connection, 1, 0, 1, 0);
  expect_channel_error(connection, 1, AMQP_PRECONDITION_FAILED,
                       "PRECONDITION_FAILED - unknown delivery tag 99");
  amqp_queue_declare(connection, 1, amqp_cstring_bytes("amq.mine"), 0, 0, 1, 0, amqp_empty_table);
  expect_channel_error(connection, 1, AMQP_ACCESS_REFUSED,
                       "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'");
  exclusive_queue(connection, 1, amqp_empty_table);
  disconnect(connection);
}

static void connection_errors(void) {
  amqp_connection_state_t connection = connect_broker();
  name_t queue = exclusive_queue(connection, 1, amqp_empty_table);
  for (int i = 0; i < 2; i++)
    amqp_basic_consume(connection, 1, bytes_of(&queue), amqp_cstring_bytes("twice"), 0, 0, 0,
                       amqp_empty_table);
  check_refused(amqp_get_rpc_reply(connection), true, AMQP_NOT_ALLOWED,
                "NOT_ALLOWED - attempt to reuse consumer tag 'twice'");

  connection = connect_broker();
  CHECK(amqp_basic_publish(connection, 1, amqp_empty_bytes, amqp_cstring_bytes("q"), 0, 1, NULL,
                           amqp_empty_bytes) == AMQP_STATUS_OK);
  amqp_basic_qos(connection, 1, 0, 1, 0);
  check_refused(amqp_get_rpc_reply(connection), true, AMQP_NOT_IMPLEMENTED,
                "NOT_IMPLEMENTED - immediate=true");

  check_refused(try_login(NULL, "not-the-password"), true, AMQP_ACCESS_REFUSED,
                "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN");
  check_refused(try_login("interop-missing", NULL), true, AMQP_NOT_ALLOWED,
                "NOT_ALLOWED - vhost interop-missing not found");
}

const behaviour_t BEHAVIOURS[] = {
    {"confirms", confirms},
    {"returns", returns},
    {"prefetch", prefetch},
    {"requeue", requeue},
    {"dead_letter", dead_letter},
    {"bindings", bindings},
    {"header_types", header_types},
    {"large_bodies", large_bodies},
    {"transactions", transactions},
    {"heartbeats", heartbeats},
    {"cancel_notify", cancel_notify},
    {"exclusive_queue", exclusive_queues},
    {"server_named_queue", server_named_queue},
    {"blocked", blocked},
    {"channel_errors", channel_errors},
    {"connection_errors", connection_errors},
};
const size_t BEHAVIOUR_COUNT = COUNT(BEHAVIOURS);
