/*
 * The secrets in the data folder. Each is a file of mode 0600 with lines of base64url without
 * padding:
 *
 *   jwt.key        32 bytes: the HS256 secret for buyers' tokens. More lines `kid key` are for
 *                  tokens that name their key; without a kid, the first line is used.
 *   jwt-eddsa.pub  optional: Ed25519 public keys, lines `kid key`
 *   ticket.key     16 bytes: signs tickets. Several lines `number key` (0 to 255; a line without a
 *                  number is number 1): the first signs, the others still verify.
 *   webhook.key    32 bytes: the Standard Webhooks secret of the payment system; or a secret as
 *                  payment systems show it: whsec_ and padded base64 of 24 to 64 bytes
 *   admin.token    the operator's token itself
 *
 * Missing required files are created on the first start. docs/CONFIGURATION.md describes how to
 * change them while the server runs.
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
    struct token_keys token_keys; /* `sluice token` signs with keys[0] */
    struct ticket_keys ticket_keys;
    uint8_t webhook_key[WEBHOOK_KEY_MAX];
    size_t webhook_key_len;
    char admin_token[ADMIN_TOKEN_MAX + 1];
    char warning[256]; /* files that others than the owner can read; empty: none */
    char made[96];     /* files that were created; empty: none */
};

/*
 * Reads all secrets. With create, first creates the folder and missing files, each completely or
 * not at all (the caller owns the folder: there must be no second creator). 0; ERR_NOTFOUND,
 * ERR_INVALID, ERR_IO, ERR_NOSPACE or ERR_NOMEM with one line in ret_error. crypt_start() has been
 * called.
 */
int secrets_load(const char *data_dir, bool create, struct secrets *ret_secrets, char *ret_error,
                 size_t error_cap);

/* Reads only the operator's token. Errors as above. */
int secrets_admin_token(const char *data_dir, char ret_token[ADMIN_TOKEN_MAX + 1], char *ret_error,
                        size_t error_cap);

#endif
