/* The behaviours by name; ../support/behaviours.py says what each shows. */
#ifndef INTEROP_BEHAVIOURS_H
#define INTEROP_BEHAVIOURS_H

#include <stddef.h>

typedef struct {
  const char *name;
  void (*run)(void);
} behaviour_t;

extern const behaviour_t BEHAVIOURS[];
extern const size_t BEHAVIOUR_COUNT;

/* Of headers.c, which is long because of its table. */
void header_types(void);

#endif
