/*
 * The table of settings as data, and conversion between text and struct config. Shared by config.c,
 * which reads a configuration, and config_print.c, which prints one.
 */
#ifndef SLUICE_APP_CONFIG_VALUE_H
#define SLUICE_APP_CONFIG_VALUE_H

#include "app/config.h"
#include "base/bytes.h"

struct config_setting {
    const char *section;
    const char *name;
    enum config_kind kind;
    uint64_t min;
    uint64_t max;
    size_t offset;    /* of the member in struct config */
    uint64_t number;  /* the default of a NUMBER, or of a FLAG (0 or 1) */
    const char *text; /* the default of anything else */
    const char *unit;
    enum config_when when;
    const char *help;
};

extern const struct config_setting config_settings[];
extern const size_t config_settings_count;

/* What a value must look like. */
const char *config_kind_text(enum config_kind kind);

/* NULL if there is none of that name. */
const struct config_setting *config_find(struct span section, struct span name);
/* The nearest setting to a name that does not exist; NULL if none looks like it. */
const struct config_setting *config_nearest(struct span section, struct span name);
const char *config_nearest_section(struct span section);

void config_defaults(struct config *ret_config);
/* 0, or ERR_INVALID with what the value must be in ret_error; then config does not change. */
int config_set(struct config *config, const struct config_setting *setting, const char *value,
               char *ret_error, size_t error_cap);
bool config_same(const struct config *a, const struct config *b,
                 const struct config_setting *setting);
void config_copy(struct config *to, const struct config *from,
                 const struct config_setting *setting);
/* The value as in a file; texts are quoted. */
void config_value_text(const struct config *config, const struct config_setting *setting,
                       struct out *out);

#endif
