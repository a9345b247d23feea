/*
 * What a reload does with each setting marked RELOAD. Given a new value, when the settings are made
 * again, then something that the server reads has changed. A setting that nobody copies would be
 * reported as reloaded and have no effect.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/config_value.h"
#include "app/settings.h"

/* Read from the configuration itself, which reload() in serve.c replaces. */
static const char *const read_in_serve[] = {
    "server.drain_ms",                               /* stop_loops() */
    "log.level",                                     /* reload() */
    "admission.defaults", "admission.address_limit", /* config_load(): which limits there are */
};

/* What a reload makes of a configuration. */
struct outcome {
    struct api_settings api;
    int64_t limits[6];
};

static void *limit_memory_open(void *context, const char *name, size_t bytes)
{
    (void)context;
    (void)name;
    return calloc(1, bytes);
}

static void limit_memory_close(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(memory);
}

static const struct limit_memory limit_memory = {.open = limit_memory_open,
                                                 .close = limit_memory_close};

static struct outcome outcome_of(const struct config *config)
{
    static struct secrets secrets;
    struct api_shared shared = {.loops = 0};
    struct api_settings *newest = NULL;
    struct runtime_limits limits = {0};
    struct outcome outcome;
    memset(&outcome, 0, sizeof(outcome));
    assert_int_equal(settings_publish(&shared, &newest, config, &secrets, &limit_memory, 16), 0);
    settings_runtime_limits(&limits, config);
    memcpy(&outcome.api, newest, sizeof(outcome.api));
    outcome.api.limits = NULL; /* another address each time */
    settings_free(newest);
    _Static_assert(sizeof(limits) == sizeof(outcome.limits), "every limit is compared");
    memcpy(outcome.limits, &limits, sizeof(outcome.limits));
    return outcome;
}

static void set_another_value(struct config *config, const struct config_setting *setting)
{
    char number[32];
    char error[CONFIG_ERROR_MAX] = "";
    const char *value = number;
    uint64_t next = setting->number < setting->max ? setting->number + 1 : setting->number - 1;
    switch (setting->kind) {
    case CONFIG_NUMBER:
        (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)next);
        break;
    case CONFIG_PROXIES:
        value = "192.0.2.1";
        break;
    case CONFIG_ORIGINS:
    case CONFIG_URL:
        value = "https://another.example";
        break;
    case CONFIG_LEVEL:
        value = "error";
        break;
    case CONFIG_FLAG:
        value = setting->number != 0 ? "false" : "true";
        break;
    default:
        fail_msg("%s.%s: give this test a value of its kind", setting->section, setting->name);
    }
    if (config_set(config, setting, value, error, sizeof(error)) != 0) {
        fail_msg("%s.%s = %s: %s", setting->section, setting->name, value, error);
    }
}

static bool is_read_in_serve(const char *name)
{
    for (size_t i = 0; i < sizeof(read_in_serve) / sizeof(*read_in_serve); i++) {
        if (strcmp(read_in_serve[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void every_setting_that_may_be_reloaded_is_read_again(void **state)
{
    (void)state;
    struct config standard;
    config_defaults(&standard);
    struct outcome before = outcome_of(&standard);
    size_t reloadable = 0;
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        char name[64];
        (void)snprintf(name, sizeof(name), "%s.%s", setting->section, setting->name);
        if (setting->when != CONFIG_RELOAD) {
            assert_false(is_read_in_serve(name));
            continue;
        }
        reloadable++;
        struct config changed = standard;
        set_another_value(&changed, setting);
        assert_false(config_same(&changed, &standard, setting));
        struct outcome after = outcome_of(&changed);
        bool copied = memcmp(&before, &after, sizeof(after)) != 0;
        if (!copied && !is_read_in_serve(name)) {
            fail_msg("%s is marked RELOAD, and a reload does not read it", name);
        }
        assert_false(copied && is_read_in_serve(name));
    }
    assert_true(reloadable > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_that_may_be_reloaded_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
