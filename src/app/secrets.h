/*
 * The secrets in the data folder. Each is a file of mode 0600 with lines of base64url, no padding:
 *
 *   jwt.key        32 bytes: the HS256 secret buyers' tokens are signed with. Further lines
 *                  `kid key` are for tokens that name their key; one that names none is tried with
 *                  the first line's.
 *   jwt-eddsa.pub  optional: Ed25519 public keys, lines `kid key`
 *   ticket.key     16 bytes: signs tickets. Several lines `number key` (0 to 255; a line without a
 *                  number is number 1): the first signs, the others still verify.
 *   webhook.key    32 bytes: the Standard Webhooks secret of the payment system; or a secret as
 *                  payment systems show theirs, whsec_ and padded base64 of 24 to 64 bytes
 *   admin.token    the operator's token itself
 *
 * Those that are missing are made on the first start. How they are changed while running is in
 * docs/CONFIGURATION.md.
 */
#ifndef SLUICE_APP_SECRETS_H
#define SLUICE_APP_SECRETS_H

#include <stdbool.h>

#include "api/token.h"
#include "base/crypt.h"
#include "core/ticket.h"

#define ADMIN_TOKEN_MAX 127
#define ADMIN_TOKEN_MIN 16
#define SECRETS_ERROR_MAX 1200

struct secrets {
    struct token_keys token_keys; /* keys[0] is the one `sluice token` signs with */
    struct ticket_keys ticket_keys;
    uint8_t webhook_key[WEBHOOK_KEY_MAX];
    size_t webhook_key_len;
    char admin_token[ADMIN_TOKEN_MAX + 1];
    char warning[256]; /* files others than their owner can read; empty: all is well */
    char made[96];     /* files that were missing and have been made; empty: none */
};

/*
 * Reads all of them; with create, the folder and whatever is missing are made first, each file
 * complete or not at all (the caller owns the folder: two makers at once are not told apart). 0;
 * ERR_NOTFOUND, ERR_INVALID, ERR_IO, ERR_NOSPACE or ERR_NOMEM with one line of text in ret_error.
 * crypt_start() has been called.
 */
int secrets_load(const char *data_dir, bool create, struct secrets *ret_secrets, char *ret_error,
                 size_t error_cap);

/* The operator's token alone, for commands that need no more. Errors as above. */
int secrets_admin_token(const char *data_dir, char ret_token[ADMIN_TOKEN_MAX + 1], char *ret_error,
                        size_t error_cap);

#endif
