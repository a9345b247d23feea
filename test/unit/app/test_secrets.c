/*
 * The secrets of a data folder: made once, read back the same, rotated by adding lines, and refused
 * with file and line where they are not what they should be.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "app/secrets.h"
#include "base/err.h"

static const char *const names[] = {"jwt.key", "webhook.key", "ticket.key", "admin.token",
                                    "jwt-eddsa.pub"};
#define NAMES (sizeof(names) / sizeof(names[0]))
#define MADE 4 /* the first so many are made on the first start */

/* 32 and 16 bytes of zeros and of 0xff. */
#define ZERO32 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define FULL32 "__________________________________________8"
#define ZERO16 "AAAAAAAAAAAAAAAAAAAAAA"
#define FULL16 "_____________________w"

static char folder[64];
static char error[SECRETS_ERROR_MAX];

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* A folder that does not exist yet, inside one of our own. */
static int setup(void **state)
{
    (void)state;
    char parent[] = "/tmp/sluice-secrets-XXXXXX";
    if (crypt_start() != 0 || mkdtemp(parent) == NULL) {
        return -1;
    }
    (void)snprintf(folder, sizeof(folder), "%s/var", parent);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        (void)unlink(path_of(names[i]));
    }
    (void)rmdir(folder);
    *strrchr(folder, '/') = '\0';
    return rmdir(folder);
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_int_equal(fclose(file), 0);
}

static struct secrets load(bool create)
{
    struct secrets secrets;
    if (secrets_load(folder, create, &secrets, error, sizeof(error)) != 0) {
        fail_msg("%s", error);
    }
    return secrets;
}

/* The error names the file, and the line where there is one. */
static void refused(const char *name, const char *text, const char *place)
{
    struct secrets secrets;
    char wanted[160];
    write_file(name, text);
    assert_int_equal(secrets_load(folder, false, &secrets, error, sizeof(error)), ERR_INVALID);
    (void)snprintf(wanted, sizeof(wanted), "%s%s", path_of(name), place);
    if (strncmp(error, wanted, strlen(wanted)) != 0) {
        fail_msg("wanted %s\n   got %s", wanted, error);
    }
}

static void the_first_start_makes_them(void **state)
{
    (void)state;
    struct secrets secrets;
    assert_int_equal(secrets_load(folder, false, &secrets, error, sizeof(error)), ERR_NOTFOUND);
    struct secrets made = load(true);
    struct stat facts;
    for (size_t i = 0; i < MADE; i++) {
        assert_int_equal(stat(path_of(names[i]), &facts), 0);
        assert_int_equal(facts.st_mode & 0777, 0600);
        assert_int_equal(facts.st_size, i == 2 ? 23 : 44); /* one line of 16 or of 32 bytes */
    }
    assert_int_equal(stat(folder, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    assert_string_equal(made.warning, "");
    assert_int_equal(made.token_keys.count, 1);
    assert_int_equal(made.token_keys.keys[0].algorithm, TOKEN_HS256);
    assert_string_equal(made.token_keys.keys[0].kid, "");
    assert_int_equal(made.ticket_keys.count, 1);
    assert_int_equal(made.ticket_keys.keys[0].number, 1);
    assert_int_equal(strlen(made.admin_token), 43);
    assert_memory_not_equal(made.webhook_key, made.token_keys.keys[0].key, CRYPT_KEY_BYTES);
}

static void the_next_start_finds_the_same(void **state)
{
    (void)state;
    struct secrets first = load(true);
    struct secrets second = load(true);
    struct secrets third = load(false);
    assert_string_equal(first.made, "jwt.key,webhook.key,ticket.key,admin.token");
    memset(first.made, 0, sizeof(first.made)); /* nothing was missing the next time */
    assert_memory_equal(&first, &second, sizeof(first));
    assert_memory_equal(&first, &third, sizeof(first));
    char token[ADMIN_TOKEN_MAX + 1];
    assert_int_equal(secrets_admin_token(folder, token, error, sizeof(error)), 0);
    assert_string_equal(token, first.admin_token);
}

static void only_what_is_missing_is_made(void **state)
{
    (void)state;
    struct secrets first = load(true);
    write_file("jwt.key.new", "left over from a crash");
    assert_int_equal(unlink(path_of("jwt.key")), 0);
    struct secrets second = load(true);
    assert_int_equal(access(path_of("jwt.key.new"), F_OK), -1);
    assert_memory_not_equal(&first.token_keys, &second.token_keys, sizeof(first.token_keys));
    assert_memory_equal(&first.ticket_keys, &second.ticket_keys, sizeof(first.ticket_keys));
    assert_string_equal(first.admin_token, second.admin_token);
    assert_string_equal(second.made, "jwt.key");
}

static void a_webhook_secret_may_look_as_payment_systems_show_it(void **state)
{
    (void)state;
    (void)load(true);
    write_file("webhook.key", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX\n");
    struct secrets secrets = load(false);
    assert_int_equal(secrets.webhook_key_len, 24);
    assert_int_equal(secrets.webhook_key[23], 23);
    struct secrets other;
    write_file("webhook.key", "whsec_AAECAw==\n");
    assert_int_equal(secrets_load(folder, false, &other, error, sizeof(error)), ERR_INVALID);
}

static void keys_rotate_by_lines(void **state)
{
    (void)state;
    (void)load(true);
    write_file("jwt.key", ZERO32 "\n2027 " FULL32 "\n");
    write_file("jwt-eddsa.pub", "old " ZERO32 "\n\nnew " FULL32); /* no end of the last line */
    write_file("ticket.key", "7 " FULL16 "\n" ZERO16 "\n0 " ZERO16 "\n");
    struct secrets secrets = load(false);
    static const struct {
        enum token_algorithm algorithm;
        const char *kid;
        uint8_t byte;
    } wanted[] = {{TOKEN_HS256, "", 0},
                  {TOKEN_HS256, "2027", 0xff},
                  {TOKEN_EDDSA, "old", 0},
                  {TOKEN_EDDSA, "new", 0xff}};
    assert_int_equal(secrets.token_keys.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(secrets.token_keys.keys[i].algorithm, wanted[i].algorithm);
        assert_string_equal(secrets.token_keys.keys[i].kid, wanted[i].kid);
        assert_int_equal(secrets.token_keys.keys[i].key[31], wanted[i].byte);
    }
    assert_int_equal(secrets.ticket_keys.count, 3);
    assert_int_equal(secrets.ticket_keys.keys[0].number, 7);
    assert_int_equal(secrets.ticket_keys.keys[0].key[15], 0xff);
    assert_int_equal(secrets.ticket_keys.keys[1].number, 1);
    assert_int_equal(secrets.ticket_keys.keys[2].number, 0);
}

static void what_is_malformed_is_refused_with_its_line(void **state)
{
    (void)state;
    (void)load(true);
    refused("jwt.key", "", ": empty");
    refused("jwt.key", "short\n", ":1: a key must be 43 characters");
    refused("jwt.key", ZERO32 "=\n", ":1: a key must be");
    refused("jwt.key", ZERO32 " \n", ":1: a key must be");
    refused("jwt.key", ZERO32 "\r\n", ":1: a key must be");
    refused("jwt.key", ZERO32 "\n" FULL32 "\n", ":2: only the first key may be without a kid");
    refused("jwt.key", "a " ZERO32 "\n\na " FULL32 "\n", ":3: this kid is in use");
    refused("jwt.key", "\x01 " ZERO32 "\n", ":1: a kid must be");
    refused("jwt.key", " " ZERO32 "\n", ":1: a kid must be");
    write_file("jwt.key", "a " ZERO32 "\n");

    refused("jwt-eddsa.pub", ZERO32 "\n", ":1: a line must be: kid key");
    refused("jwt-eddsa.pub", "new\n", ":1: a line must be: kid key");
    refused("jwt-eddsa.pub", "a " ZERO32 "\n", ":1: this kid is in use"); /* by jwt.key */
    refused("jwt-eddsa.pub", "rubbish in a line\n", ":1: a key must be");
    assert_int_equal(unlink(path_of("jwt-eddsa.pub")), 0);

    refused("ticket.key", ZERO32 "\n", ":1: a key must be 22 characters");
    refused("ticket.key", ZERO16 "\n1 " FULL16 "\n", ":2: this number is in use");
    refused("ticket.key", "256 " ZERO16 "\n", ":1: the number of a key must be 0 to 255");
    refused("ticket.key", "1 " ZERO16 "\n2 " ZERO16 "\n3 " ZERO16 "\n4 " ZERO16 "\n5 " ZERO16 "\n",
            ":5: too many keys");
    write_file("ticket.key", ZERO16 "\n");

    refused("webhook.key", "x " ZERO32 "\n", ":1: one key is wanted");
    refused("webhook.key", ZERO32 "\n" ZERO32 "\n", ":2: one key is wanted");
    write_file("webhook.key", ZERO32 "\n");

    refused("admin.token", "short\n", ":1: the token must have 16 to 127 characters");
    refused("admin.token", "two words of enough length\n", ":1: one token is wanted");
    char token[ADMIN_TOKEN_MAX + 1];
    assert_int_equal(secrets_admin_token(folder, token, error, sizeof(error)), ERR_INVALID);
}

static void a_secret_is_never_repeated_in_a_message(void **state)
{
    (void)state;
    (void)load(true);
    refused("jwt.key", "almost-a-secret\n", ":1: ");
    assert_null(strstr(error, "almost"));
}

static void what_others_can_read_is_warned_of(void **state)
{
    (void)state;
    (void)load(true);
    assert_int_equal(chmod(path_of("jwt.key"), 0644), 0);
    assert_int_equal(chmod(path_of("ticket.key"), 0640), 0);
    struct secrets secrets = load(true);
    assert_string_equal(secrets.warning, "jwt.key, ticket.key");
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_first_start_makes_them),
        TEST(the_next_start_finds_the_same),
        TEST(only_what_is_missing_is_made),
        TEST(a_webhook_secret_may_look_as_payment_systems_show_it),
        TEST(keys_rotate_by_lines),
        TEST(what_is_malformed_is_refused_with_its_line),
        TEST(a_secret_is_never_repeated_in_a_message),
        TEST(what_others_can_read_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
