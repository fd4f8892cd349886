/* Runs every behaviour in a process of its own and prints a line for each: see ../README.md. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "behaviours.h"
#include "client.h"

enum { LIMIT_S = 30, STATUS_OK = 0, STATUS_FAILED = 1, STATUS_SKIPPED = 2 };

static const char *running = "introduce";

void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("FAILED %s: ", running);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  fflush(stdout);
  _exit(STATUS_FAILED);
}

void skip(const char *why) {
  printf("skipped %s: %s\n", running, why);
  fflush(stdout);
  _exit(STATUS_SKIPPED);
}

static void introduce(void) {
  amqp_connection_state_t connection = connect_broker();
  const amqp_table_t *properties = amqp_get_server_properties(connection);
  amqp_bytes_t product = field_of(properties, "product")->value.bytes;
  amqp_bytes_t version = field_of(properties, "version")->value.bytes;
  printf("client librabbitmq %s\n", amqp_version());
  printf("broker %.*s %.*s\n", (int)product.len, (const char *)product.bytes, (int)version.len,
         (const char *)version.bytes);
  disconnect(connection);
}

static bool run(const behaviour_t *behaviour) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    running = behaviour->name;
    alarm(LIMIT_S);
    behaviour->run();
    printf("ok %s\n", running);
    fflush(stdout);
    _exit(STATUS_OK);
  }

  int status;
  if (child < 0 || waitpid(child, &status, 0) != child) return false;
  if (WIFSIGNALED(status)) printf("FAILED %s: ended by signal %d\n", behaviour->name, WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) != STATUS_FAILED;
}

int main(void) {
  introduce();
  bool all_well = true;
  for (size_t i = 0; i < BEHAVIOUR_COUNT; i++) all_well = run(&BEHAVIOURS[i]) && all_well;
  return all_well ? EXIT_SUCCESS : EXIT_FAILURE;
}
