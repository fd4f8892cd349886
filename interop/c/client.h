/* What the behaviours share: connections, queues, messages, and what to do when a fact is not so. */
#ifndef INTEROP_CLIENT_H
#define INTEROP_CLIENT_H

#include <amqp.h>
#include <amqp_framing.h>
#include <stdbool.h>
#include <stddef.h>

#define NAME_SIZE 64

typedef struct {
  char text[NAME_SIZE];
} name_t;

typedef struct {
  amqp_bytes_t body; /* Free it. */
  amqp_message_t message;
  uint64_t tag;
  bool redelivered;
} got_t;

/* Each behaviour runs in a process of its own, so these may end it. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void skip(const char *why);

#define CHECK(fact)                                         \
  do {                                                      \
    if (!(fact)) fail("%s:%d: %s", __FILE__, __LINE__, #fact); \
  } while (0)

const char *broker_url(void);
amqp_connection_state_t connect_to(const char *url, int heartbeat_s);
amqp_connection_state_t connect_broker(void);
amqp_rpc_reply_t try_login(const char *vhost, const char *password);
void open_channel(amqp_connection_state_t connection, amqp_channel_t channel);
void disconnect(amqp_connection_state_t connection);

name_t unique_name(const char *kind);
amqp_bytes_t bytes_of(const name_t *name);
bool bytes_equal(amqp_bytes_t bytes, const char *text);
bool table_has_text(const amqp_table_t *table, const char *key, const char *text);
const amqp_field_value_t *field_of(const amqp_table_t *table, const char *key);
amqp_table_entry_t text_entry(const char *key, amqp_bytes_t text);
amqp_table_entry_t integer_entry(const char *key, int32_t value);

name_t exclusive_queue(amqp_connection_state_t connection, amqp_channel_t channel, amqp_table_t arguments);
int message_count(amqp_connection_state_t connection, amqp_channel_t channel, name_t queue);
void wait_for_count(amqp_connection_state_t connection, amqp_channel_t channel, name_t queue, int count);
void publish(amqp_connection_state_t connection, amqp_channel_t channel, const char *exchange,
             amqp_bytes_t key, const char *body);
bool try_get(amqp_connection_state_t connection, amqp_channel_t channel, name_t queue, got_t *got);
got_t get(amqp_connection_state_t connection, amqp_channel_t channel, name_t queue);
void release(got_t *got);

void check_reply(amqp_connection_state_t connection);
amqp_frame_t wait_method(amqp_connection_state_t connection, amqp_method_number_t wanted);
void check_refused(amqp_rpc_reply_t reply, bool of_connection, int code, const char *text);
void expect_channel_error(amqp_connection_state_t connection, amqp_channel_t channel, int code, const char *text);

#endif
