#include "client.h"

#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FRAME_MAX 131072
#define PAUSE_NS 20000000L

const char *broker_url(void) {
  const char *url = getenv("INTEROP_URL");
  return url ? url : "amqp://guest:guest@127.0.0.1:5672/";
}

/* The strings of the parsed address point into the copy, which is kept. */
static amqp_connection_state_t connect_socket(const char *url, struct amqp_connection_info *info) {
  CHECK(amqp_parse_url(strdup(url), info) == AMQP_STATUS_OK);
  if (*info->vhost == '\0') info->vhost = "/"; /* What a lone slash means to other clients. */
  amqp_connection_state_t connection = amqp_new_connection();
  amqp_socket_t *socket = amqp_tcp_socket_new(connection);
  CHECK(socket != NULL);
  int status = amqp_socket_open(socket, info->host, info->port);
  if (status != AMQP_STATUS_OK) fail("connecting: %s", amqp_error_string2(status));
  return connection;
}

/* librabbitmq does not announce these: the frames are for its user to read. */
static amqp_rpc_reply_t login(amqp_connection_state_t connection, const struct amqp_connection_info *info,
                              int heartbeat_s) {
  amqp_field_value_t yes = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1};
  amqp_table_entry_t able[] = {
      {amqp_cstring_bytes("connection.blocked"), yes},
      {amqp_cstring_bytes("consumer_cancel_notify"), yes},
  };
  amqp_table_entry_t capabilities = {
      .key = amqp_cstring_bytes("capabilities"),
      .value = {.kind = AMQP_FIELD_KIND_TABLE, .value.table = {2, able}},
  };
  amqp_table_t properties = {1, &capabilities};
  return amqp_login_with_properties(connection, info->vhost, 0, FRAME_MAX, heartbeat_s, &properties,
                                    AMQP_SASL_METHOD_PLAIN, info->user, info->password);
}

amqp_connection_state_t connect_to(const char *url, int heartbeat_s) {
  struct amqp_connection_info info;
  amqp_connection_state_t connection = connect_socket(url, &info);
  CHECK(login(connection, &info, heartbeat_s).reply_type == AMQP_RESPONSE_NORMAL);
  return connection;
}

amqp_connection_state_t connect_broker(void) {
  amqp_connection_state_t connection = connect_to(broker_url(), 0);
  open_channel(connection, 1);
  return connection;
}

/* The reply's strings belong to the connection, which lives until the process ends. */
amqp_rpc_reply_t try_login(const char *vhost, const char *password) {
  struct amqp_connection_info info;
  amqp_connection_state_t connection = connect_socket(broker_url(), &info);
  if (vhost) info.vhost = (char *)vhost;
  if (password) info.password = (char *)password;
  return login(connection, &info, 0);
}

void open_channel(amqp_connection_state_t connection, amqp_channel_t channel) {
  amqp_channel_open(connection, channel);
  check_reply(connection);
}

void disconnect(amqp_connection_state_t connection) {
  amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(connection);
}

name_t unique_name(const char *kind) {
  static unsigned count;
  name_t name;
  snprintf(name.text, sizeof name.text, "interop.c.%s.%d-%u", kind, (int)getpid(), ++count);
  return name;
}

amqp_bytes_t bytes_of(const name_t *name) { return amqp_cstring_bytes(name->text); }

bool bytes_equal(amqp_bytes_t bytes, const char *text) {
  return bytes.len == strlen(text) && memcmp(bytes.bytes, text, bytes.len) == 0;
}

const amqp_field_value_t *field_of(const amqp_table_t *table, const char *key) {
  for (int i = 0; i < table->num_entries; i++)
    if (bytes_equal(table->entries[i].key, key)) return &table->entries[i].value;
  fail("the table has no %s", key);
}

bool table_has_text(const amqp_table_t *table, const char *key, const char *text) {
  const amqp_field_value_t *field = field_of(table, key);
  return field->kind == AMQP_FIELD_KIND_UTF8 && bytes_equal(field->value.bytes, text);
}

amqp_table_entry_t text_entry(const char *key, amqp_bytes_t text) {
  return (amqp_table_entry_t){
      .key = amqp_cstring_bytes(key),
      .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = text},
  };
}

amqp_table_entry_t integer_entry(const char *key, int32_t value) {
  return (amqp_table_entry_t){
      .key = amqp_cstring_bytes(key),
      .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = value},
  };
}

name_t exclusive_queue(amqp_connection_state_t connection, amqp_channel_t channel, amqp_table_t arguments) {
  amqp_queue_declare_ok_t *ok =
      amqp_queue_declare(connection, channel, amqp_empty_bytes, 0, 0, 1, 0, arguments);
  check_reply(connection);
  name_t name;
  CHECK(ok->queue.len < sizeof name.text);
  memcpy(name.text, ok->queue.bytes, ok->queue.len);
  name.text[ok->queue.len] = '\0';
  return name;
}

int message_count(amqp_connection_state_t connection, amqp_channel_t channel, name_t queue) {
  amqp_queue_declare_ok_t *ok =
      amqp_queue_declare(connection, channel, bytes_of(&queue), 1, 0, 1, 0, amqp_empty_table);
  check_reply(connection);
  return (int)ok->message_count;
}

static void rest(void) { nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL); }

void wait_for_count(amqp_connection_state_t connection, amqp_channel_t channel, name_t queue, int count) {
  while (message_count(connection, channel, queue) != count) rest();
}

void publish(amqp_connection_state_t connection, amqp_channel_t channel, const char *exchange,
             amqp_bytes_t key, const char *body) {
  CHECK(amqp_basic_publish(connection, channel, amqp_cstring_bytes(exchange), key, 0, 0, NULL,
                           amqp_cstring_bytes(body)) == AMQP_STATUS_OK);
}

bool try_get(amqp_connection_state_t connection, amqp_channel_t channel, name_t queue, got_t *got) {
  amqp_rpc_reply_t reply = amqp_basic_get(connection, channel, bytes_of(&queue), 0);
  CHECK(reply.reply_type == AMQP_RESPONSE_NORMAL);
  if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD) return false;

  amqp_basic_get_ok_t *ok = reply.reply.decoded;
  got->tag = ok->delivery_tag;
  got->redelivered = ok->redelivered;
  reply = amqp_read_message(connection, channel, &got->message, 0);
  CHECK(reply.reply_type == AMQP_RESPONSE_NORMAL);
  got->body = got->message.body;
  return true;
}

got_t get(amqp_connection_state_t connection, amqp_channel_t channel, name_t queue) {
  got_t got;
  while (!try_get(connection, channel, queue, &got)) rest();
  return got;
}

void release(got_t *got) { amqp_destroy_message(&got->message); }

void check_reply(amqp_connection_state_t connection) {
  amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
  if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
    fail("the library says: %s", amqp_error_string2(reply.library_error));
  if (reply.reply_type != AMQP_RESPONSE_NORMAL)
    fail("the broker refused it with %s", amqp_method_name(reply.reply.id));
}

amqp_frame_t wait_method(amqp_connection_state_t connection, amqp_method_number_t wanted) {
  amqp_frame_t frame;
  for (;;) {
    CHECK(amqp_simple_wait_frame(connection, &frame) == AMQP_STATUS_OK);
    if (frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == wanted) return frame;
  }
}

static void check_text(amqp_bytes_t got, const char *text) {
  if (got.len < strlen(text) || memcmp(got.bytes, text, strlen(text)) != 0)
    fail("got '%.*s', want '%s'", (int)got.len, (const char *)got.bytes, text);
}

void check_refused(amqp_rpc_reply_t reply, bool of_connection, int code, const char *text) {
  CHECK(reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION);
  int got;
  if (of_connection) {
    CHECK(reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD);
    amqp_connection_close_t *close = reply.reply.decoded;
    got = close->reply_code;
    check_text(close->reply_text, text);
  } else {
    CHECK(reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD);
    amqp_channel_close_t *close = reply.reply.decoded;
    got = close->reply_code;
    check_text(close->reply_text, text);
  }
  if (got != code) fail("got the code %d, want %d", got, code);
}

/* The channel is open again afterwards: its number is free once the close is answered. */
void expect_channel_error(amqp_connection_state_t connection, amqp_channel_t channel, int code, const char *text) {
  check_refused(amqp_get_rpc_reply(connection), false, code, text);
  amqp_channel_close_ok_t answer = {0};
  CHECK(amqp_send_method(connection, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &answer) == AMQP_STATUS_OK);
  amqp_maybe_release_buffers(connection);
  open_channel(connection, channel);
}
